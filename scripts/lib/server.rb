# frozen_string_literal: true

# Starts a Highball for a script that measures it, and ends it. It measures nothing.

require "socket"

HIGHBALL = File.expand_path(ENV["HIGHBALL_BIN"] || "#{__dir__}/../../target/release/highball")

# A server that runs: its process, its port on the loopback device, the path of its log.
class Server
  attr_reader :pid, :port, :log

  # Starts one with these options of `highball serve`, and waits until it serves. `variables` are its environment's;
  # `before` is a command that runs it, such as taskset.
  def self.start(folder, *options, log:, variables: {}, before: [])
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    pid = spawn(variables, *before, HIGHBALL, "serve", folder, "--listen", "127.0.0.1:#{port}", "--environment", "production",
                *options, out: log, err: log)
    new(pid, port, log).tap(&:wait)
  end

  # Starts one, yields it, and ends it.
  def self.open(...)
    server = start(...)
    yield server
  ensure
    server&.stop
  end

  def initialize(pid, port, log)
    @pid = pid
    @port = port
    @log = log
  end

  def url = "http://127.0.0.1:#{port}/"

  def stop
    Process.kill("TERM", pid)
    Process.wait(pid)
  end

  def wait
    900.times { File.read(log).include?("ready: ") ? return : sleep(0.1) }
    stop
    abort "no server came up:\n#{File.read(log)}"
  end
end
