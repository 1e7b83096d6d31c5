# frozen_string_literal: true

require "socket"
require_relative "default_handler"

module Highball
  # What `rackup -s highball` and `rails server -u highball` call. The application that they have loaded
  # cannot be handed to another program, so this process becomes `highball serve`, which loads the same
  # rackup file again, in its own template. It keeps its process number, and writes the file with that number.
  module Handler
    # What rackup and Rails pass on about themselves; rackup passes what was given with -O beside it.
    OWN_OPTIONS = %i[
      AccessLog DoNotReverseLookup Host Port app builder caching config daemonize debug early_hints environment
      heapfile include log_stdout pid profile_file profile_mode quiet require restart_cmd server
      user_supplied_options warn
    ].freeze

    extend self

    # Becomes the server. Returns only where that fails.
    def run(_app = nil, **options)
      arguments = command(**options)
      remove_pid_file(options[:pid])
      $stdout.flush
      exec(variables(**options), *arguments)
    rescue Errno::ENOENT => error
      abort "highball: #{error.message}; install the gem, or run `make`"
    end

    # The program and its arguments for the options of rackup or Rails.
    def command(**options)
      refuse(**options)
      folder = folder(**options)
      arguments = [binary, "serve", folder]
      rackup = File.expand_path(options[:config] || "config.ru", folder)
      arguments.push("--rackup", rackup) unless rackup == File.join(folder, "config.ru")
      arguments.push("--listen", address(**options)) if addressed?(**options)
      arguments.push("--pid-file", options[:pid].to_s) if options[:pid]
      arguments.concat(rails(**options), settings(**options))
    end

    # Help for `rackup -s highball -h`.
    def valid_options
      {
        "Host=HOST" => "Host, IP address or path of a UNIX socket to listen on",
        "Port=PORT" => "Port to listen on",
        "workers=N|auto" => "Worker processes (default: the cores of this machine)",
        "threads=N" => "Threads of each worker (default: 3)",
        "SETTING=VALUE" => "Any other setting of `highball serve --help`"
      }
    end

    private

    # Rack has written the number of this process to the file, and would remove it at its end. The server writes and
    # removes it itself; but a server that cannot start, for its settings are wrong, does neither.
    def remove_pid_file(path)
      File.unlink(path) if path && File.exist?(path) && File.read(path).to_i == Process.pid
    rescue SystemCallError => error
      warn("highball: cannot remove #{path}: #{error.message}")
    end

    # The server would load something else than what the user named.
    def refuse(**options)
      return unless options[:builder]

      abort "highball: rackup -b is not supported, for each worker loads a rackup file; write the line into config.ru"
    end

    # The application's folder. A process that went into the background is in `/` by now.
    def folder(config: nil, daemonize: nil, **)
      rails = defined?(::Rails.root) && ::Rails.root
      return rails.to_s if rails

      daemonize && config ? File.dirname(config) : Dir.pwd
    end

    # Rails names what its user gave; what is only its default is left to Highball's own settings.
    def addressed?(user_supplied_options: nil, **options)
      # rackup -O listen=ADDRESS
      return false if options.key?(:listen)

      given = %i[Host Port].select { |name| options[name] }
      given &= user_supplied_options if user_supplied_options
      given.any?
    end

    def address(**options)
      host = options[:Host].to_s
      port = options[:Port].to_s
      return "unix:#{host.delete_prefix("unix:").sub(%r{\A//+}, "/")}" if host.start_with?("/", ".", "unix:")
      return port if host.empty?
      return "localhost:#{port}" if host == "localhost"

      # Highball looks up no names.
      address = Addrinfo.tcp(host.delete_prefix("[").delete_suffix("]"), nil)
      address.ipv6? ? "[#{address.ip_address}]:#{port}" : "#{address.ip_address}:#{port}"
    rescue SocketError => error
      abort "highball: cannot listen on #{host.dump}: #{error.message}; name an IP address, or unix:/path/to.sock"
    end

    # What only Rails passes on, as flags.
    def rails(user_supplied_options: [], environment: nil, log_stdout: nil, early_hints: nil, **)
      flags = []
      # Also where the file of settings names another one.
      flags.push("--environment", environment.to_s) if user_supplied_options.include?(:environment)
      flags.push("--rails-log-to-stdout", "true") if log_stdout
      flags.push("--early-hints", "true") if early_hints
      flags
    end

    # What was given with rackup's -O, as flags: `-O Threads=5` and `-O threads=5` are `--threads=5`. The server
    # refuses what it does not know, and names what is similar.
    def settings(**options)
      # Rails has no -O, but other versions of it may pass on other options.
      return [] if options.key?(:user_supplied_options)

      options.except(*OWN_OPTIONS).map { |name, value| "--#{name.to_s.downcase.tr("_", "-")}=#{value}" }
    end

    # The server reads what it needs of the environment itself; -I and -r of rackup count for its workers, too.
    def variables(**options)
      libraries = [*options[:include], ENV.fetch("RUBYLIB", nil)].compact
      required = [ENV.fetch("RUBYOPT", nil), *Array(options[:require]).map { |library| "-r#{library}" }].compact
      {
        "RUBYLIB" => (libraries.join(File::PATH_SEPARATOR) if libraries.any?),
        "RUBYOPT" => (required.join(" ") if required.any?),
        **DefaultHandler.variables_to_remove, **unnamed_environment
      }
    end

    # rackup and Rails write `development` into the variables where nobody has named an environment. The server is more
    # careful then: somebody may have forgotten to name `production`. What this process was started with is in /proc.
    def unnamed_environment
      names = %w[RAILS_ENV RACK_ENV]
      return {} unless names.all? { |name| [nil, "", "development"].include?(ENV.fetch(name, nil)) }

      started_with = %w[cmdline environ].flat_map { |name| File.read("/proc/self/#{name}").split("\0") }
      started_with.any?(/\A(?:(?:RAILS|RACK)_ENV=.|-E|--env)/) ? {} : names.to_h { |name| [name, nil] }
    end

    # In the gem; in the repository; in the PATH.
    def binary
      root = File.expand_path("../..", __dir__)
      places = [File.join(root, "libexec/highball"), File.expand_path("../target/release/highball", root)]
      ENV["HIGHBALL_BIN"] || places.find { |path| File.executable?(path) } || "highball"
    end
  end
end
