# frozen_string_literal: true

module Highball
  # Makes Highball the server of `rails server` and `rackup` where the bundle has no other one that they look for.
  #
  # They look for Puma, Falcon, Thin and WEBrick by name, and for the one that a variable names. So this names Highball
  # there, in their process alone, when they load the bundle and with it this gem.
  module DefaultHandler
    # The variables of Rack 2 and of Rackup.
    VARIABLES = %w[RACK_HANDLER RACKUP_HANDLER].freeze

    # Servers of the bundle that stay the default. WEBrick does not: older versions of Rackup bring it along.
    OTHERS = %w[puma falcon thin].freeze

    @named = []

    class << self
      # Names Highball in the variables if this process is `rails server` or `rackup`, under Bundler, and neither a
      # variable nor the bundle names another server.
      def choose
        return unless defined?(::Bundler) && starts_server?
        return if VARIABLES.any? { |name| ENV.key?(name) } || OTHERS.any? { |name| Gem.loaded_specs.key?(name) }

        @named = VARIABLES
        @named.each { |name| ENV[name] = "highball" }
      end

      # For the environment of the server: what was named here is not meant for what the application starts.
      def variables_to_remove
        @named.to_h { |name| [name, nil] }
      end

      private

      # Whether a command has loaded what starts servers. Rack 2 would load it when it is asked for, and loads it for
      # each rackup file, also in Highball's own template.
      def starts_server?
        return false if defined?(Template)
        return true if defined?(::Rackup::Server)

        defined?(::Rack::Server) && !::Rack.autoload?(:Server)
      end
    end
  end
end
