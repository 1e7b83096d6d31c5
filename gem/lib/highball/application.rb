# frozen_string_literal: true

module Highball
  # Loading an application: its bundle, its rackup file. Knows nothing of processes.
  module Application
    class << self
      # The Rack application of `start`, with its folder as the current one.
      #
      # Raises whatever the application raises.
      def load(start)
        ENV["RACK_ENV"] = ENV["RAILS_ENV"] = start.environment
        Dir.chdir(start.app)
        # As `ruby` and `rackup` have it for a file in the current folder.
        load_bundle(start.app)
        require "rack"
        require "rack/builder"
        loaded = ::Rack::Builder.parse_file(start.config_ru)
        # Rack 2 returns the application and options.
        loaded.instance_of?(Array) ? loaded.first : loaded
      end

      private

      # Before Rack, whose version the bundle decides. The environment's BUNDLE_GEMFILE goes first, as in Bundler.
      def load_bundle(folder)
        gemfile = ENV.fetch("BUNDLE_GEMFILE", File.join(folder, "Gemfile"))
        return unless File.exist?(gemfile)

        require "bundler"
        # Without the handling of errors in "bundler/setup", which ends the process on a terminal.
        Bundler.setup
      end
    end
  end
end
