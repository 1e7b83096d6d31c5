# frozen_string_literal: true

# A template without the extension and without an application, for the supervisor's tests. The "rackup
# file" names what it does. Its "memory" is a pipe whose end tells the workers to leave.

require "io/wait"
require "json"
require "socket"

# The test's process, as a pidfd. No stand-in may outlive it: a worker whose template was killed before it named that worker
# is known to no supervisor, which then cannot kill it.
TEST = IO.for_fd(syscall(434, Process.ppid, 0))

# The kernel kills this template when the thread of its test ends (PR_SET_PDEATHSIG), also while it waits for a FIFO.
syscall(RUBY_PLATFORM.start_with?("aarch64") ? 167 : 157, 1, 9)

# Does nothing until the test's process has ended.
def hang
  TEST.wait_readable
  exit!(9)
end

def receive(socket)
  data, _, _, *controls = socket.recvmsg(65_536, 0, 512, scm_rights: true)
  return if data.nil? || data.empty?

  [JSON.parse(data), controls.flat_map(&:unix_rights)]
end

def tell(socket, message, *ios)
  controls = ios.empty? ? [] : [Socket::AncillaryData.unix_rights(*ios)]
  socket.sendmsg(JSON.generate(message), 0, nil, *controls)
end

def work(mode, number, control, stop)
  exit!(3) if mode == "dies"
  hang if mode == "never_ready"
  tell(control, "Error" => { "message" => "hello\nfrom #{number}" })
  tell(control, "Ready" => { "worker" => number, "pid" => Process.pid })
  if mode == "hijack"
    mine, theirs = UNIXSocket.pair
    hijack = { "worker" => number, "thread" => 0, "slot" => 5, "sequence" => 77 }
    tell(control, { "Hijack" => hijack }, theirs)
    theirs.close
    mine.write("from the application")
    mine.close
  end
  control.send("nonsense", 0) if mode == "misbehaves"
  if mode == "traces"
    asked, = receive(control)
    thread, slot, sequence = asked.fetch("Backtrace").values_at("thread", "slot", "sequence")
    lines = ["thread #{thread}", "of #{number}"]
    tell(control, "Backtrace" => { "slot" => slot, "sequence" => sequence, "backtrace" => lines })
  end
  hang if mode == "stubborn"
  ready, = IO.select([control, stop, TEST])
  exit!(ready.include?(stop) ? 0 : 7)
end

control = Socket.for_fd($stdin.dup.tap { |io| io.autoclose = false }.fileno)
$stdin.reopen(File::NULL)
exit!(4) if ARGV.any?
start, (stop, _doorbell) = receive(control)
start = start.fetch("Start")
mode = start.fetch("config_ru")
case mode
when "raises"
  backtrace = ["config.ru:1:in `block'", "config.ru:1:in `<main>'"]
  tell(control, "BootFailed" => { "class" => "RuntimeError", "message" => "no database", "backtrace" => backtrace })
  exit!(1)
when "exits" then exit!(5)
when "hangs" then hang
end
# Boots once: a mark in the application's folder says that it did.
if mode == "boots_once"
  exit!(6) if File.exist?("booted")
  File.write("booted", "")
end
# A process that the application starts itself.
File.write("helper", Process.spawn("sleep", "1000")) if mode == "helper"

booted = { "pid" => Process.pid, "ruby" => RUBY_VERSION, "rack" => ENV.fetch("RACK_ENV"), "seconds" => 0.5,
           "held" => ["thread \"poller\" started at config.ru:7"], "gems" => [], "filter_parameters" => [],
           "public_folder" => nil }
tell(control, "Booted" => booted)

children = {}
trap("TERM") { nil }
loop do
  ready, = IO.select([control, *children.keys])
  ready.each do |io|
    number, pid = children.delete(io)
    next unless pid

    _, status = Process.wait2(pid)
    io.close
    text = status.signaled? ? "signal #{status.termsig} (#{Signal.signame(status.termsig)})" : "exit #{status.exitstatus}"
    tell(control, "Exited" => { "worker" => number, "pid" => pid, "status" => text })
  end
  next unless ready.include?(control)

  message, (socket, _) = receive(control)
  exit!(0) if message.nil? || message == "Exit"
  hang if mode == "never_forks" || File.exist?("forks_hang_#{start.fetch("generation")}")
  number = message.fetch("Fork").fetch("worker")
  if File.exist?("unforkable")
    tell(control, "NotForked" => { "worker" => number, "reason" => "no memory" })
    socket.close
    next
  end
  pid = fork do
    control.close
    children.each_key(&:close)
    work(mode, number, Socket.for_fd(socket.tap { |io| io.autoclose = false }.fileno), stop)
  end
  socket.close
  pidfd = IO.for_fd(syscall(434, pid, 0))
  # The worker is reported when the test says so.
  File.open("name") { |fifo| fifo.sysread(1) } if File.exist?("name")
  children[pidfd] = [number, pid]
  tell(control, { "Forked" => { "worker" => number, "pid" => pid } }, pidfd)
rescue Errno::EPIPE
  exit!(0)
end
