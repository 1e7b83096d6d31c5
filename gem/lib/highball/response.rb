# frozen_string_literal: true

require_relative "connection"
require_relative "errors"
require_relative "fields"
require_relative "stream"

module Highball
  # Delivers a response that the extension does not deliver in one call: bodies that are enumerated, files,
  # streaming bodies, and connections that the application takes over. It closes the body, whatever happens.
  class Response
    def initialize(seat, env, status, headers, body)
      @seat = seat
      @claim = seat.claim
      @env = env
      @status = status
      @headers = headers
      @body = body
      @closed = false
    end

    # Sends the response. Raises what the application's body raises.
    def deliver
      return @seat.finish if @seat.hijacked?

      @headers = Fields.hash(@headers)
      @status = @status.to_i
      callback = @headers["rack.hijack"]
      callback ? deliver_by_hijack(callback) : deliver_body
    ensure
      close
    end

    private

    def deliver_body
      if no_body?
        deliver_list([])
      elsif (path = file)
        @seat.head(@claim, @status, @headers)
        @seat.file(@claim, path)
        @seat.finish
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

    def deliver_list(list)
      return if @seat.respond(@status, @headers, list)

      raise InvalidResponse, "the body yields other things than strings"
    end

    # The head leaves together with the first chunk, each chunk when it is yielded. A body that keeps the block and calls
    # it later gets an error: the claim is that of this response.
    def deliver_each
      @seat.head(@claim, @status, @headers)
      @body.each { |chunk| @seat.chunk(@claim, chunk) }
      @seat.finish
    end

    def deliver_stream
      @seat.head(@claim, @status, @headers)
      @seat.flush
      stream = Stream.new(@seat, @claim, @env["rack.input"])
      begin
        @body.call(stream)
      ensure
        stream.close
      end
      @seat.finish
    end

    # Partial hijack: the worker writes the head, the application the rest, for as long as it likes.
    def deliver_by_hijack(callback)
      io = Connection.take_over(@seat, @claim)
      Connection.write_head(io, @status, @headers)
      callback.call(io)
      @seat.finish
    end

    # Whether the message has no content (RFC 9110, sections 9.3.2 and 15.3.5): then a body is closed
    # without being enumerated.
    def no_body?
      @env["REQUEST_METHOD"] == "HEAD" || @status < 200 || @status == 204 || @status == 304
    end

    # The absolute path of a body that is a file; the front sends it.
    def file
      return unless @body.respond_to?(:to_path)

      path = File.expand_path(@body.to_path)
      path if File.file?(path) && File.readable?(path)
    end

    # A body as an Array of strings. Since Rack 3 `to_ary` also closes the body; before, a `to_ary` says
    # nothing about closing, and is left alone.
    def array
      return @body if @body.instance_of?(Array)
      return unless RACK_3 && @body.respond_to?(:to_ary)

      list = @body.to_ary
      @closed = true if list
      list
    end

    def close
      return if @closed

      @closed = true
      @body.close if @body.respond_to?(:close)
    end

    # Rack.release, from 1.3 on.
    RACK_3 = ::Rack.release.to_i >= 3
    private_constant :RACK_3
  end
end
