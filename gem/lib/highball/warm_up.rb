# frozen_string_literal: true

module Highball
  # The requests of the setting `warm_up`: the template's own, before it forks. Whatever comes of them, workers serve.
  class WarmUp
    # Seconds that the pages that clients ask for most may take together: nobody has said that they may be requested.
    FREQUENT_SECONDS = 10

    # Ends a request that took too long. No StandardError: the application must not take it for one of its own.
    Late = Class.new(Exception) # rubocop:disable Lint/InheritException
    private_constant :Late

    # `listed` are the paths that the setting names. `frequent` are those that clients ask for most, nil where they are
    # not wanted. A sentence about each thing that goes wrong is passed to the block.
    def initialize(app, listed, frequent, seconds: FREQUENT_SECONDS, &tell)
      @app = app
      @listed = listed
      @frequent = frequent
      @seconds = seconds
      @tell = tell
      @requested = 0
    end

    # Has the application answer a GET of each path, and closes what Active Record opened for them.
    def run
      return if @listed.empty? && (@frequent || []).empty?

      began = now
      begin
        @listed.each { |path| request(path) }
        request_frequent
      ensure
        disconnect
      end
      @took = now - began
    end

    # Name, value and reason, as Runtime#facts has them of its options; empty where nothing was to be requested.
    def fact
      return [] if @listed.empty? && @frequent.nil?

      pages = @requested == 1 ? "page" : "pages"
      value = @took ? "#{@requested} #{pages} in #{format("%.2f", @took)} s" : "nothing"
      kinds = ["#{@listed.size} listed", ("#{@frequent.size} frequent" if @frequent)].compact
      ["warm_up", value, kinds.join(", ")]
    end

    private

    def request_frequent
      return if @frequent.nil? || @frequent.empty?

      deadline = now + @seconds
      within_time do
        @frequent.each do |path|
          # The application may have caught what ended the last one.
          raise Late if now >= deadline

          request(path)
        end
      end
    end

    # Calls the block, and ends it where it takes too long. No thread is left: workers are forked next.
    def within_time(&block)
      caller = Thread.current
      Thread.handle_interrupt(Late => :never) do
        clock = Thread.new do
          sleep(@seconds)
          caller.raise(Late)
        end
        begin
          Thread.handle_interrupt(Late => :immediate, &block)
        ensure
          clock.kill.join
        end
      end
    rescue Late
      @tell.call("warm_up: the pages that clients ask for most took longer than #{@seconds} s at #{@path}; " \
                 "the rest was left out")
    end

    def request(path)
      @path = path
      @requested += 1
      env = ::Rack::MockRequest.env_for(
        "https://localhost#{path}",
        "HTTP_HOST" => "localhost", "REMOTE_ADDR" => "127.0.0.1", "rack.errors" => $stderr
      )
      status, _, body = @app.call(env)
      finish(body)
      @tell.call("warm_up: #{path} was answered with status #{status}") unless (200..399).cover?(status.to_i)
    rescue StandardError, ScriptError => error
      @tell.call("warm_up: #{path} failed: #{Highball.describe(error)}")
    end

    def finish(body)
      # One that is a stream of the client's has no client to write to.
      body.each { |_chunk| next } if body.respond_to?(:each)
    ensure
      body.close if body.respond_to?(:close)
    end

    # A child must not use its parent's connections, and SQLite's locks end when the child closes them.
    def disconnect
      ::ActiveRecord::Base.connection_handler.clear_all_connections! if defined?(::ActiveRecord::Base)
    rescue StandardError => error
      @tell.call("warm_up: Active Record keeps its connections: #{Highball.describe(error)}")
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
