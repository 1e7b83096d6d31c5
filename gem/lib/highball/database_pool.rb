# frozen_string_literal: true

module Highball
  # Whether Active Record's pools have a connection for each thread of a worker, in sentences. The numbers are those
  # that Active Record itself has read from config/database.yml. It opens no connection and changes nothing.
  module DatabasePool
    class << self
      # A sentence for each pool that is smaller than the number of threads.
      def warnings(threads)
        return [] unless defined?(::ActiveRecord::Base)

        pools = ::ActiveRecord::Base.connection_handler.connection_pool_list
        pools.filter_map { |pool| warning(pool, threads) }
      rescue StandardError
        # Another version has another interface.
        []
      end

      private

      def warning(pool, threads)
        size = pool.size
        # Rails 8.1 has pools without a limit.
        return unless size.is_a?(Integer) && size.positive? && size < threads

        "the database pool #{name(pool)} has #{size} connections for the #{threads} threads of a worker: requests " \
          "wait for one, and fail with ActiveRecord::ConnectionTimeoutError; set pool to #{threads} or more in " \
          "config/database.yml, or threads to #{size}"
      end

      # Rails 6.1 and later, and before.
      def name(pool)
        (pool.respond_to?(:db_config) ? pool.db_config : pool.spec).name.inspect
      end
    end
  end
end
