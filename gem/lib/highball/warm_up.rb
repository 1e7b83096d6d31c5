# frozen_string_literal: true

module Highball
  # The requests of the setting `warm_up`: the template's own, before it forks. Whatever comes of them, workers serve.
  module WarmUp
    class << self
      # Has `app` answer a GET of each path, and closes what Active Record opened for them. Yields a sentence about each
      # thing that went wrong.
      def run(app, paths, &tell)
        return if paths.empty?

        begin
          paths.each { |path| request(app, path, &tell) }
        ensure
          disconnect { |cause| tell.call("warm_up: Active Record keeps its connections: #{Highball.describe(cause)}") }
        end
      end

      private

      def request(app, path)
        env = ::Rack::MockRequest.env_for(
          "https://localhost#{path}",
          "HTTP_HOST" => "localhost", "REMOTE_ADDR" => "127.0.0.1", "rack.errors" => $stderr
        )
        status, _, body = app.call(env)
        finish(body)
        yield "warm_up: #{path} was answered with status #{status}" unless (200..399).cover?(status.to_i)
      rescue StandardError, ScriptError => error
        yield "warm_up: #{path} failed: #{Highball.describe(error)}"
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
        yield error
      end
    end
  end
end
