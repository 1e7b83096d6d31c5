# frozen_string_literal: true

require "rbconfig"
require_relative "errors"

module Highball
  # Loads the extension that was built for this Ruby; never falls back to another one's.
  module Native
    class << self
      # The Ruby that an extension is built for: major and minor version.
      def abi
        RUBY_VERSION[/\A\d+\.\d+/]
      end

      # Loads the extension in `directory`.
      #
      # Raises LoadError with what to do where it is missing, was built for another Ruby, or cannot be loaded.
      def load(directory = __dir__)
        raise LoadError, "this is #{RUBY_ENGINE} #{RUBY_ENGINE_VERSION} (#{RbConfig.ruby}): #{CRUBY}" unless cruby?

        path = File.join(directory, abi, "highball.#{RbConfig::CONFIG["DLEXT"]}")
        raise LoadError, missing(directory) unless File.exist?(path)

        begin
          require path
        rescue LoadError => error
          raise LoadError, "the extension for Ruby #{abi} cannot be loaded: #{error.message}: #{BUILD}"
        end
      end

      # Raises NotTheWorker in a process that the application or a hook forked from the template and that came back:
      # it must not speak for the template.
      def refuse_children
        return unless child?

        raise NotTheWorker, "this process was forked while the application was loaded, or by a hook: " \
                            "end it in the code that forks (fork { ... }, or exit)"
      end

      private

      def cruby?
        RUBY_ENGINE == "ruby"
      end

      def missing(directory)
        built = Dir[File.join(directory, "[0-9]*", "highball.*")].map { |path| File.basename(File.dirname(path)) }.uniq
        this = "Ruby #{RUBY_VERSION} (#{RbConfig.ruby})"
        if built.empty?
          "the extension is not built (no #{abi}/highball.so in #{directory}), and this is #{this}: #{BUILD}"
        else
          "the extension was built for Ruby #{built.sort.join(", ")}; this is #{this}: " \
            "serve with one of those (--ruby PATH), or #{BUILD}"
        end
      end
    end

    CRUBY = "Highball's extension needs CRuby; name one with --ruby PATH"
    BUILD = "build it for this Ruby (`make build` in the repository), or install a gem built for it"
    private_constant :CRUBY, :BUILD
  end
end
