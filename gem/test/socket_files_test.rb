# frozen_string_literal: true

require "test_helper"
require "highball/socket_files"

# When the socket files of a front may be removed.
class SocketFilesTest < Minitest::Test
  # Number of the system call exit, which ends one thread.
  EXIT = RbConfig::CONFIG["host_cpu"] == "aarch64" ? 93 : 60

  # Ends its first thread alone, as a killed process with several threads may.
  WITHOUT_FIRST_THREAD = <<~RUBY.freeze
    require "fiddle"
    Thread.new { sleep }
    exit = Fiddle::Function.new(Fiddle::Handle::DEFAULT["syscall"], [Fiddle::TYPE_LONG] * 2, Fiddle::TYPE_LONG)
    exit.call(#{EXIT}, 0)
  RUBY

  def test_a_front_of_which_a_thread_is_left_is_not_dead
    pid = spawn(RbConfig.ruby, "-e", WITHOUT_FIRST_THREAD)
    Thread.pass until File.read("/proc/#{pid}/stat").include?(") Z ")
    waits = Thread.new { Highball::SocketFiles.wait_for_death_of(pid) }
    early = waits.join(0.2)
    Process.kill(:KILL, pid)

    assert_nil early
    assert waits.value
  ensure
    Process.wait(pid)
  end

  def test_a_front_that_is_gone_is_dead
    pid = spawn("true")
    Process.wait(pid)

    assert Highball::SocketFiles.wait_for_death_of(pid)
  end
end
