# frozen_string_literal: true

module Highball
  # Has the extension measure each request, and tells it what only Ruby knows: the queries and the actions of Rails, and
  # the patterns of its routes. It never raises into the application.
  module Measures
    # Patterns of more routes than these are made again for each request.
    MOST_ROUTES = 2000

    # Each query of Active Record. Its times add up as those of Rails' own log do.
    class Queries
      def start(_name, _id, _payload)
        Native.query_began
      end

      # Answers from the query cache, and questions about the schema, are no queries of the application.
      def finish(_name, _id, payload)
        Native.query_ended(!payload[:cached] && payload[:name] != "SCHEMA")
      end
    end

    # Each action of a controller, with its times in milliseconds.
    class Actions
      def start(_name, _id, _payload); end

      def finish(_name, _id, payload)
        Native.action_ended(payload[:db_runtime], payload[:view_runtime])
      end
    end

    @patterns = {}.compare_by_identity

    class << self
      # Has the requests of the workers measured that this process forks. Call it once the application is loaded.
      def start(threads)
        database = defined?(::ActiveSupport::Notifications) && defined?(::ActiveRecord::Base) ? true : false
        Native.measure(self, threads > 1, database)
        return unless defined?(::ActiveSupport::Notifications)

        ::ActiveSupport::Notifications.subscribe("sql.active_record", Queries.new) if database
        return unless defined?(::ActionController::Base) || defined?(::ActionController::API)

        ::ActiveSupport::Notifications.subscribe("process_action.action_controller", Actions.new)
      end

      # The pattern of a route of Rails 8.1, nil where it has none. The extension asks.
      def pattern(route)
        @patterns.fetch(route) do
          pattern = route.path.spec.to_s
          @patterns[route] = pattern if @patterns.size < MOST_ROUTES
          pattern
        end
      rescue StandardError
        nil
      end
    end
  end
end
