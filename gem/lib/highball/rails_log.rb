# frozen_string_literal: true

module Highball
  # Rails' log on stdout, beside its own place. `rails server` does the same in its own process, which the server
  # replaces: what that process has set up does not reach the workers.
  module RailsLog
    class << self
      # Has Rails write what it logs to stdout as well, unless it does already. Does nothing without Rails.
      def show
        logger = defined?(::Rails.logger) && ::Rails.logger
        return unless logger && !::ActiveSupport::Logger.logger_outputs_to?(logger, $stdout, $stderr)

        console = ::ActiveSupport::Logger.new($stdout)
        console.formatter = logger.formatter
        console.level = logger.level
        # Rails 7.1 and later have loggers of their own that write to several places.
        return logger.broadcast_to(console) if logger.respond_to?(:broadcast_to)

        # There a logger that the application has put in Rails' place may write to one place alone.
        logger.extend(::ActiveSupport::Logger.broadcast(console)) if ::ActiveSupport::Logger.respond_to?(:broadcast)
      end
    end
  end
end
