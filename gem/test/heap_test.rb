# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "open3"

# The memory of a template and its workers: what is free goes back, and what is new is not mixed with what is shared.
class HeapTest < Minitest::Test
  JEMALLOC = Dir["/usr/lib/*-linux-gnu/libjemalloc.so.2"].first
  LIB = File.expand_path("../lib", __dir__)
  # Answers with the arena of its thread, and with how many jemalloc has for all processes.
  SHOWS = <<~RUBY
    require "fiddle"
    types = [*[Fiddle::TYPE_VOIDP] * 4, Fiddle::TYPE_SIZE_T]
    mallctl = Fiddle::Function.new(Fiddle::Handle::DEFAULT["mallctl"], types, Fiddle::TYPE_INT)
    read = lambda do |name|
      value = [0].pack("L")
      mallctl.call(name, value, [value.bytesize].pack("J"), nil, 0).zero? or raise(name)
      value.unpack1("L")
    end
    run lambda { |_|
      sleep 0.1
      [200, {}, [[Thread.current.object_id, read.call("thread.arena"), read.call("opt.narenas")].join(" ")]]
    }
  RUBY
  # Frees most of 80 MB, in which something is left here and there, and prints by how much the process shrinks then.
  FREES = <<~RUBY
    require "highball/native"
    Highball::Native.load
    resident = -> { File.read("/proc/self/statm").split[1].to_i * 4096 }
    strings = Array.new(20_000) { "x" * 4000 }
    strings.select!.with_index { |_, index| (index % 200).zero? }
    GC.start
    before = resident.call
    Highball::Native.release_memory
    puts before - resident.call
  RUBY

  def setup
    skip "libjemalloc2 is not installed" unless JEMALLOC
  end

  # Answers of both threads of a worker: numbers of thread, arena and the first arena that is not everybody's.
  def answers(supervisor)
    front = supervisor.front
    slots = [front.publish, front.publish]
    slots.map { |slot| front.answer(slot).body.split.map(&:to_i) }
  end

  def test_all_threads_of_a_worker_have_an_arena_that_no_other_process_has
    variables = { "LD_PRELOAD" => JEMALLOC, "MALLOC_CONF" => "narenas:2" }
    FakeSupervisor.open({ "config.ru" => SHOWS }, threads: 2, variables:) do |supervisor|
      name, fields = supervisor.message
      assert_equal "Booted", name, fields.inspect
      supervisor.fork_worker
      threads, arenas, shared = answers(supervisor).transpose.map(&:uniq)
      assert_equal 2, threads.size
      assert_equal [2], shared
      assert_equal 1, arenas.size
      assert_operator arenas.first, :>=, 2
    end
  end

  def test_free_memory_goes_back_to_the_system
    jemalloc = { "LD_PRELOAD" => JEMALLOC, "MALLOC_CONF" => "dirty_decay_ms:-1" }
    [jemalloc, { "LD_PRELOAD" => nil }].each do |variables|
      output, status = Open3.capture2e(variables, RbConfig.ruby, "-I", LIB, "-e", FREES)
      assert status.success?, output
      assert_operator output.to_i, :>, 40_000_000, variables.inspect
    end
  end
end
