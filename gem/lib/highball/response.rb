# frozen_string_literal: true

require_relative "connection"
require_relative "empty_input"
require_relative "errors"
require_relative "fields"
require_relative "rack_release"
require_relative "stream"

module Highball
  # Delivers a response that the extension does not deliver in one call: bodies that are enumerated, files,
  # streaming bodies, and connections that the application takes over. It closes the body, whatever happens.
  class Response
    # `names_files`: the front may open files that are bodies, by their paths.
    def initialize(worker_thread, env, status, headers, body, names_files: true)
      @worker_thread = worker_thread
      @claim = worker_thread.claim_of(env)
      @env = env
      @status = status
      @headers = headers
      @body = body
      @names_files = names_files
      @closed = false
    end

    # Sends the response. Raises what the application's body raises.
    def deliver
      return @worker_thread.finish(@claim) if @worker_thread.hijacked?

      @headers = Fields.hash(@headers)
      @status = @status.to_i
      callback = connection_callback
      callback ? deliver_by_hijack(callback) : deliver_body
    ensure
      close
    end

    private

    def deliver_body
      if no_body?
        deliver_head
      elsif (path = file)
        @worker_thread.head(@claim, @status, @headers)
        @worker_thread.file(@claim, path)
        @worker_thread.finish(@claim)
      elsif (list = array)
        deliver_list(list)
      elsif @body.respond_to?(:each)
        deliver_each
      elsif @body.respond_to?(:call)
        deliver_stream
      else
        raise InvalidResponse, "the body responds neither to each nor to call: #{@body.class}"
      end
    end

    # There is nothing that the callback of a partial hijack could write.
    def deliver_head
      @worker_thread.head(@claim, @status, @headers.except("rack.hijack"))
      @worker_thread.finish(@claim)
    end

    def deliver_list(list)
      return if @worker_thread.respond(@env, @status, @headers, list)

      raise InvalidResponse, "the body yields other things than strings"
    end

    # The head leaves together with the first chunk, each chunk when it is yielded. A body that keeps the block and
    # calls it later gets an error: the claim is that of this response.
    def deliver_each
      @worker_thread.head(@claim, @status, @headers)
      @body.each { |chunk| @worker_thread.chunk(@claim, chunk) }
      @worker_thread.finish(@claim)
    end

    def deliver_stream
      @worker_thread.head(@claim, @status, @headers)
      @worker_thread.flush
      stream = Stream.new(@worker_thread, @claim, @env["rack.input"] || EMPTY_INPUT)
      begin
        @body.call(stream)
      ensure
        stream.close
      end
      @worker_thread.finish(@claim)
    end

    # What is called with the client's connection once the head is out: the callback of a partial hijack, or the
    # streaming body of a 101, whose stream is the upgraded connection. Nothing where the message has no content.
    def connection_callback
      switch_protocols if @headers["rack.protocol"]
      return if no_body? && @status != 101

      @headers["rack.hijack"] || (@body if @status == 101 && streaming?)
    end

    # Takes up a protocol that the client offers (Rack 3.1 SPEC, "The rack.protocol Header").
    def switch_protocols
      return unless [101, 200].include?(@status) && streaming?

      protocol = @headers["rack.protocol"]
      unless @env["rack.protocol"]&.include?(protocol)
        raise InvalidResponse, "rack.protocol is #{protocol.inspect}, which the client does not offer"
      end

      @status = 101
      @headers = @headers.reject { |name, _| name.casecmp?("upgrade") }.merge("upgrade" => protocol)
    end

    def streaming?
      !@body.respond_to?(:each) && @body.respond_to?(:call)
    end

    # The worker writes the head, the application the rest, for as long as it likes.
    def deliver_by_hijack(callback)
      # Before the connection is taken: an error in the head can still be answered.
      head = Connection.head(@status, @headers)
      io = Connection.take_over(@worker_thread, @claim)
      begin
        io.write(head)
        callback.call(io)
      rescue Exception # rubocop:disable Lint/RescueException -- the client must see that nothing more comes
        io.close
        raise
      end
      @worker_thread.finish(@claim)
    end

    # Whether the message has no content (RFC 9110, sections 9.3.2 and 15.3.5): then a body is closed
    # without being enumerated.
    def no_body?
      @env["REQUEST_METHOD"] == "HEAD" || @status < 200 || @status == 204 || @status == 304
    end

    # The absolute path of a body that is a file; the front sends it.
    def file
      return unless @names_files && @body.respond_to?(:to_path)

      # A wrapper responds to it whatever it wraps.
      path = @body.to_path
      path = File.expand_path(path) if path
      path if path && File.file?(path) && File.readable?(path)
    end

    # A body as an Array of strings. Since Rack 3 `to_ary` also closes the body; before, a `to_ary` says
    # nothing about closing, and is left alone.
    def array
      return @body if @body.instance_of?(Array)
      return unless ARRAYS_CLOSE && @body.respond_to?(:to_ary)

      list = @body.to_ary
      @closed = true if list
      list
    end

    def close
      return if @closed

      @closed = true
      @body.close if @body.respond_to?(:close)
    end

    ARRAYS_CLOSE = (RACK_RELEASE <=> [3, 0]) >= 0
    # For streams of requests that have no body, and since Rack 3.1 no input.
    EMPTY_INPUT = EmptyInput.new
    private_constant :ARRAYS_CLOSE, :EMPTY_INPUT
  end
end
