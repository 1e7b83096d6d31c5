# frozen_string_literal: true

require "socket"

module Highball
  # What `rackup -s highball` and `rails server -u highball` call. The application that they have loaded
  # cannot be handed to another program, so this process becomes `highball serve`, which loads the same
  # rackup file again, in its own template. A file with a process number that they have written stays valid
  # while the server runs, and stays behind afterwards; both step over a stale one.
  module Handler
    # Options of rackup's -O, and the flags of `highball serve` that they are.
    FLAGS = { Workers: "--workers", Threads: "--threads" }.freeze

    extend self

    # Becomes the server. Returns only where that fails.
    def run(_app = nil, **options)
      $stdout.flush
      # The server refuses variables of its own prefix that it does not know.
      exec({ "HIGHBALL_BIN" => nil }, *command(**options))
    rescue Errno::ENOENT => error
      abort "highball: #{error.message}; install the gem, or run `make`"
    end

    # The program and its arguments for rackup's options.
    def command(**options)
      folder = Dir.pwd
      arguments = [binary, "serve", folder]
      rackup = File.expand_path(options.fetch(:config, "config.ru"), folder)
      arguments.push("--rackup", rackup) unless rackup == File.join(folder, "config.ru")
      arguments.push("--listen", address(**options)) if addressed?(**options)
      FLAGS.each { |name, flag| arguments.push(flag, options[name].to_s) if options.key?(name) }
      arguments
    end

    # Help for `rackup -s highball -h`.
    def valid_options
      {
        "Host=HOST" => "Host, IP address or path of a UNIX socket to listen on",
        "Port=PORT" => "Port to listen on",
        "Workers=N|auto" => "Worker processes (default: the cores of this machine)",
        "Threads=N" => "Threads of each worker (default: 3)"
      }
    end

    private

    # Rails names what its user gave; what is only its default is left to Highball's own settings.
    def addressed?(user_supplied_options: nil, **options)
      given = %i[Host Port].select { |name| options[name] }
      given &= user_supplied_options if user_supplied_options
      given.any?
    end

    def address(**options)
      host = options[:Host].to_s
      port = options[:Port].to_s
      return "unix:#{host}" if host.start_with?("/")
      return port if host.empty?
      return "localhost:#{port}" if host == "localhost"

      # Highball looks up no names.
      address = Addrinfo.tcp(host, nil)
      address.ipv6? ? "[#{address.ip_address}]:#{port}" : "#{address.ip_address}:#{port}"
    end

    # In the gem; in the repository; in the PATH.
    def binary
      root = File.expand_path("../..", __dir__)
      places = [File.join(root, "libexec/highball"), File.expand_path("../target/release/highball", root)]
      ENV["HIGHBALL_BIN"] || places.find { |path| File.executable?(path) } || "highball"
    end
  end
end
