# frozen_string_literal: true

require "io/nonblock"
require "timeout"

# Runs a real template in a process of its own and plays the supervisor and the front for it.
class FakeSupervisor
  TEMPLATE = File.expand_path("../lib/highball/template.rb", __dir__)
  TIMEOUT = 20

  attr_reader :front, :pid, :folder, :output

  # Files are those of the application: name and text. The block is given the supervisor.
  def self.open(files, **start)
    Dir.mktmpdir do |folder|
      supervisor = new(folder, files, **start)
      begin
        yield supervisor
      ensure
        supervisor.close
      end
    end
  end

  def initialize(folder, files, threads: 1, environment: "test", compact: false, roomy: false, out_of_band: nil,
                 out_of_band_gc: false, release_memory_after: nil, low_priority: false,
                 warm_up: [], frequent_paths: nil, sockets: [], variables: {}, measure_requests: false, exceptions: nil,
                 merge_pages: false)
    @folder = folder
    files.each { |name, text| File.write(File.join(folder, name), text) }
    @front = Front.new(workers: 2, threads:)
    @control, theirs = UNIXSocket.pair(:SEQPACKET)
    @output = File.open(File.join(folder, "output.log"), "w+")
    files = { in: theirs, %i[out err] => @output }
    @pid = spawn(variables, RbConfig.ruby, "-w", TEMPLATE, **files, chdir: folder, pgroup: true)
    theirs.close
    @workers = {}
    hooks = File.join(folder, "hooks.rb")
    start = { app: folder, config_ru: File.join(folder, "config.ru"), environment:,
              hooks: (hooks if File.exist?(hooks)), threads:, compact:, roomy_heap: roomy, merge_pages:,
              out_of_band:, out_of_band_gc:, release_memory_after:, low_priority:, warm_up:, frequent_paths:,
              generation: 1, unix_sockets: sockets, measure_requests:, exceptions: }
    send({ Start: start }, IO.for_fd(@front.memory, autoclose: false), @front.doorbell)
  end

  # Sends a control message with files.
  def send(message, *files)
    ancillary = files.empty? ? [] : [Socket::AncillaryData.unix_rights(*files)]
    @control.sendmsg(JSON.generate(message), 0, nil, *ancillary)
  end

  # The template's next message: its name, its fields and its files; nil at the end.
  def message
    receive(@control)
  end

  # Forks a worker and waits until it is ready: its process.
  def fork_worker(number = 0)
    worker_socket(number)
    name, fields, files = message
    raise "expected Forked, got #{name}" unless name == "Forked" && files.size == 1

    files.each(&:close)
    ready = worker_message(number)
    expected = ["Ready", { "worker" => number, "pid" => fields["pid"] }]
    raise "expected #{expected}, got #{ready.inspect}" unless ready == expected

    fields["pid"]
  end

  # Asks for a worker: the socket on which it would speak.
  def worker_socket(number = 0)
    ours, theirs = UNIXSocket.pair(:SEQPACKET)
    # As the real one: a worker waits for room in it.
    theirs.nonblock = false
    send({ Fork: { worker: number } }, theirs)
    theirs.close
    @workers[number] = ours
  end

  # A worker's next message: name and fields; nil at its end.
  def worker_message(number = 0)
    receive(@workers.fetch(number))&.first(2)
  end

  # Asks a worker where the thread is that runs a request: the lines of its answer.
  def backtrace(thread:, slot:, sequence: 1, number: 0)
    question = { thread:, slot:, sequence: }
    @workers.fetch(number).sendmsg(JSON.generate({ Backtrace: question }), 0)
    name, fields = worker_message(number)
    raise "expected Backtrace, got #{name}" unless name == "Backtrace"
    raise "another's answer: #{fields}" unless fields.values_at("slot", "sequence") == [slot, sequence]

    fields["backtrace"]
  end

  # Asks a worker how it is: the pieces of its answer.
  def inspect_worker(what, id: 1, number: 0)
    @workers.fetch(number).sendmsg(JSON.generate({ Inspect: { id:, what: } }), 0)
    pieces = []
    loop do
      name, fields = worker_message(number)
      raise "expected Inspected, got #{name}" unless name == "Inspected" && fields["id"] == id

      pieces << fields["text"]
      return pieces if fields["last"]
    end
  end

  # Answers a worker's purge.
  def purged(id, result, number: 0)
    @workers.fetch(number).sendmsg(JSON.generate({ Purged: { id:, result: } }), 0)
  end

  # The socket that a worker sends for a connection that its application took over.
  def hijacked_socket(number = 0)
    name, _, files = receive(@workers.fetch(number))
    raise "expected Hijack, got #{name}" unless name == "Hijack"

    UNIXSocket.for_fd(files.first.fileno.tap { files.first.autoclose = false })
  end

  # Runs a request: the answer.
  def request(**request)
    @front.answer(@front.publish(**request))
  end

  # Closes a socket, as the front's death would.
  def hang_up(number = nil)
    (number ? @workers.delete(number) : @control).close
  end

  # The template's status, once it has ended.
  def wait
    Timeout.timeout(TIMEOUT) { Process.wait2(@pid).last }.tap { @pid = nil }
  end

  def log
    File.read(@output.path)
  end

  def close
    leave if @pid && !@control.closed?
    [@control, *@workers.values].each { |socket| socket.close unless socket.closed? }
    wait if @pid
    @output.close
  end

  private

  # A template that loses its front instead would first see whether that is really gone.
  def leave
    send("Exit")
  rescue Errno::EPIPE
    # It has ended already.
  end

  def receive(socket)
    raise "no message within #{TIMEOUT} seconds; the template said: #{log}" unless socket.wait_readable(TIMEOUT)

    text, _, _, *ancillary = socket.recvmsg(65_536, scm_rights: true)
    # From Ruby 3.3 on the end is nil.
    return if text.nil? || text.empty?

    message = JSON.parse(text)
    name, fields = message.is_a?(Hash) ? message.first : [message, {}]
    [name, fields, ancillary.flat_map { |data| data.unix_rights || [] }]
  rescue Errno::ECONNRESET
    # It ended with a message unread.
    nil
  end
end
