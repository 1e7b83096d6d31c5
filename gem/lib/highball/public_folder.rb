# frozen_string_literal: true

module Highball
  # The folder that a Rails application publishes, and how ActionDispatch::Static serves it. Reads the configuration and
  # changes nothing.
  #
  # A folder is published only if nothing stands before its files that might keep somebody from them: config.ru runs the
  # application itself, and the middleware up to the place of ActionDispatch::Static is known.
  module PublicFolder
    # Middleware before ActionDispatch::Static that refuses nobody a file, or that the server takes into account.
    BEFORE = %w[ActionDispatch::HostAuthorization ActionDispatch::SSL Rack::Sendfile].freeze
    # The first middleware that Rails has after the place of ActionDispatch::Static.
    AFTER = %w[ActionDispatch::Static ActionDispatch::Executor].freeze
    # More fields, or longer ones, are no configuration of such a server.
    MOST_FIELDS = 32
    LONGEST = 1024

    class << self
      # Path, name of the index page, "true" where only requests over https are answered, and names and values of fields
      # by turns, all as texts; empty where `app` publishes none.
      def of(app)
        rails = ::Rails.application if defined?(::Rails) && ::Rails.respond_to?(:application)
        return [] unless rails && app.equal?(rails)

        before = middleware_before(rails)
        return [] unless before && (before - BEFORE).empty?

        describe(rails, before)
      rescue StandardError
        # Another version has another interface: the application answers.
        []
      end

      private

      # The names of what comes before the place of ActionDispatch::Static; nil where that is not found.
      def middleware_before(rails)
        names = rails.middleware.map { |one| one.name.to_s }
        place = names.index { |name| AFTER.include?(name) }
        names.first(place) if place
      end

      def describe(rails, before)
        path = rails.paths["public"].first
        return [] unless path && File.directory?(path)

        server = rails.config.public_file_server
        fields = fields(server.headers)
        return [] unless fields

        index = (server.index_name if server.respond_to?(:index_name)) || "index"
        https_only = before.include?("ActionDispatch::SSL")
        [path.to_s, index.to_s, https_only.to_s, *fields]
      end

      # Nil where they are none that can be told.
      def fields(headers)
        fields = (headers || {}).to_a.flatten.map(&:to_s)
        fields if fields.size <= 2 * MOST_FIELDS && fields.all? { |text| text.bytesize <= LONGEST }
      end
    end
  end
end
