# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "rack"
require "rbconfig"
require "socket"
require "tmpdir"

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "highball"
require "highball/native"

# The extension under test, and the front's side of the exchange, which is a Rust example of the same crate.
module Built
  ROOT = File.expand_path("../..", __dir__)

  def self.load
    Highball::Native.load
    Dir.mktmpdir do |folder|
      # Ruby finds the extension's function by the file's name, which Cargo begins with "lib".
      FileUtils.cp(front, File.join(folder, "test_front.so"))
      require File.join(folder, "test_front.so")
    end
  end

  # The library with the front's side: TEST_FRONT where there is no Cargo, else built here.
  def self.front
    ENV.fetch("TEST_FRONT") do
      build = %w[cargo build --quiet --release -p highball-extension --example test_front]
      system(*build, chdir: ROOT, exception: true)
      File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target")), "release/examples/libtest_front.so")
    end
  end
end

Built.load
require "highball/worker"

# The front's side of an exchange. It waits for the doorbell as the real one does.
class Front
  KINDS = {
    1 => :head, 2 => :hints, 3 => :chunk, 4 => :file, 5 => :end, 6 => :error, 7 => :abort, 8 => :hijacked,
    9 => :exception, 10 => :counts
  }.freeze
  TIMEOUT = 20

  # A response, as the frames tell it.
  Answer = Struct.new(:frames) do
    def head
      kind, payload = frames.assoc(:head)
      kind && Front.parse_head(payload)
    end

    def status
      head&.first
    end

    # [name, value] in order.
    def fields
      head.last
    end

    def body
      frames.filter_map { |kind, payload| payload if kind == :chunk }.join
    end

    def error
      frames.assoc(:error)&.last
    end

    def kinds
      frames.map(&:first)
    end
  end

  def self.parse_head(payload)
    status, count = payload.unpack("S<S<")
    at = 4
    fields = Array.new(count) do
      name, _, value = payload[at, 8].unpack("S<S<L<")
      field = [payload[at + 8, name], payload[at + 8 + name, value]]
      at += 8 + name + value
      field
    end
    [status, fields]
  end

  attr_reader :memory, :doorbell

  def initialize(workers: 1, threads: 1, request: 65_536, response: 65_536)
    @number = TestFront.create(workers, threads, request, response)
    @memory, doorbell = TestFront.files(@number)
    @doorbell = IO.for_fd(doorbell)
  end

  # Publishes a request and returns its slot. Fields are env keys and values.
  def publish(method: "GET", path: "/", query: "", fields: {}, body: "", file: nil,
              protocol: "HTTP/1.1", scheme: "http", remote: "127.0.0.1", port: 3000,
              arrived: 1_700_000_000_123_456, deadline: 5_000_000_000)
    facts = [arrived, deadline, port, 40_000, file ? file.fileno : -1, file ? file.size : 0]
    texts = [method, path, query, "example.org", remote, protocol, scheme, body]
    TestFront.publish(@number, facts, texts, fields.to_a)
  end

  # Waits for the next frame of a slot: [kind, payload], or nil once the request has been handed back.
  def frame(slot)
    wait_for { take_frame(slot) || (TestFront.done?(@number, slot) && (take_frame(slot) || :done)) }
      .then { |frame| frame == :done ? nil : frame }
  end

  # Collects the response of a slot, and frees it.
  def answer(slot)
    frames = []
    while (frame = frame(slot))
      frames << frame
    end
    TestFront.release(@number, slot)
    Answer.new(frames)
  end

  # Whether the request has been handed back.
  def done?(slot)
    TestFront.done?(@number, slot)
  end

  def abandon(slot)
    TestFront.abandon(@number, slot)
  end

  def stop(worker)
    TestFront.stop(@number, worker)
  end

  private

  def take_frame(slot)
    kind, payload = TestFront.frame(@number, slot)
    kind && [KINDS.fetch(kind), payload]
  end

  # What the block returns, as soon as it is something; asked again after each ring of the doorbell.
  def wait_for
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + TIMEOUT
    loop do
      result = yield
      return result if result

      left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      raise "nothing came within #{TIMEOUT} seconds" if left.negative?

      # An eventfd that has rung stays readable until it is read.
      @doorbell.wait_readable(left) && @doorbell.read_nonblock(8, exception: false) if TestFront.park(@number)
      TestFront.unpark(@number)
    end
  end
end

# This process as a worker with one thread, whose requests the tests run in a thread.
module OwnWorker
  class << self
    attr_reader :front, :worker_thread, :control

    def start
      @front = Front.new
      doorbell = @front.doorbell.dup
      doorbell.autoclose = false
      @control, ours = UNIXSocket.pair(:SEQPACKET)
      # A worker ends, with status 0, when its server closes this socket. This process must end with the status of its
      # tests, so neither end is closed before it.
      [@control, ours].each { |socket| socket.autoclose = false }
      Highball::Native.attach(@front.memory, doorbell.fileno)
      Highball::Native.prepare(
        Process.pid, $stderr, Highball::EmptyInput.new, Highball::Connection, true, true, Highball::RACK_RELEASE
      )
      Highball::Native.enter(0, ours.fileno)
      @worker_thread = Highball::WorkerThread.new(0)
    end

    # Runs one request through `app`; the block reads the response, or the whole of it is returned.
    def request(app, **request)
      slot = @front.publish(**request)
      runner = Highball::Runner.new(app, @worker_thread)
      thread = Thread.new { runner.__send__(:serve, @worker_thread.take) }
      answer = block_given? ? yield(slot) : @front.answer(slot)
      thread.join
      answer
    end

    # The next control message and its descriptors.
    def message
      text, _, _, *ancillary = @control.recvmsg(65_536, scm_rights: true)
      [JSON.parse(text), ancillary.flat_map { |data| data.unix_rights || [] }]
    end
  end

  start

  def request(app, **request, &block)
    OwnWorker.request(app, **request, &block)
  end

  def front
    OwnWorker.front
  end

  # An application that keeps its env and answers with nothing.
  def env_of(**request)
    env = nil
    answer = request(->(given) { env = given and [200, {}, []] }, **request)
    assert_equal 200, answer.status
    env
  end
end
