# frozen_string_literal: true

require "test_helper"
require "highball/out_of_band"
require "fake_supervisor"
require "timeout"

class OutOfBandTest < Minitest::Test
  # A worker thread whose turn it is or not.
  class Turn
    attr_accessor :free
    attr_reader :calls

    def initialize
      @calls = []
      @free = true
    end

    def begin_out_of_band
      @calls << :begin
      @free
    end

    def end_out_of_band
      @calls << :end
    end
  end

  def setup
    @worker_thread = Turn.new
    @work = 0
    @out_of_band = Highball::OutOfBand.new(3) { @work += 1 }
  end

  def requests(count)
    count.times { @out_of_band.after_request(@worker_thread) }
  end

  def test_the_work_is_done_once_in_so_many_requests
    requests(2)
    assert_equal [0, []], [@work, @worker_thread.calls]
    requests(7)
    assert_equal [3, %i[begin end] * 3], [@work, @worker_thread.calls]
  end

  def test_where_it_is_not_its_turn_each_further_request_is_a_try
    @worker_thread.free = false
    requests(5)
    assert_equal [0, %i[begin] * 3], [@work, @worker_thread.calls]
    @worker_thread.free = true
    requests(1)
    assert_equal 1, @work
    requests(2)
    assert_equal 1, @work
  end

  def test_the_turn_is_given_back_whatever_the_work_raises
    out_of_band = Highball::OutOfBand.new(1) { raise "work" }
    assert_raises(RuntimeError) { out_of_band.after_request(@worker_thread) }
    assert_equal %i[begin end], @worker_thread.calls
  end

  # Major collections of garbage that are due or not.
  class Majors
    attr_accessor :due
    attr_reader :collected

    def initialize
      @collected = 0
    end

    def due?
      @due
    end

    def collect
      @collected += 1
      @due = false
    end
  end

  def test_major_collections_wait_for_the_turn_and_count_for_no_other_work
    majors = Majors.new
    @out_of_band = Highball::OutOfBand.new(3, majors) { @work += 1 }
    majors.due = true
    @worker_thread.free = false
    requests(2)
    assert_equal [0, 0, %i[begin] * 2], [majors.collected, @work, @worker_thread.calls]
    @worker_thread.free = true
    # Both are due: the work, which collects as well.
    requests(1)
    assert_equal [0, 1], [majors.collected, @work]
    requests(2)
    assert_equal [1, 1], [majors.collected, @work]
    requests(1)
    assert_equal [1, 2], [majors.collected, @work]
  end

  def test_without_an_interval_there_are_only_major_collections
    majors = Majors.new
    @out_of_band = Highball::OutOfBand.new(nil, majors) { @work += 1 }
    requests(5)
    assert_equal [0, []], [majors.collected, @worker_thread.calls]
    majors.due = true
    requests(2)
    assert_equal [1, 0, %i[begin end]], [majors.collected, @work, @worker_thread.calls]
  end

  # Tells when a collection has found what a request left; only the server collects.
  COLLECTED = {
    "config.ru" => <<~RUBY, "hooks.rb" => "after_fork { GC.disable }"
      run(lambda do |_|
        100.times { ObjectSpace.define_finalizer(Object.new, proc { File.write("collected", GC.count.to_s) }) }
        [200, {}, [GC.count.to_s]]
      end)
    RUBY
  }.freeze

  def test_a_worker_without_requests_collects_in_its_turn
    [1, 3].each do |threads|
      FakeSupervisor.open(COLLECTED, threads:, release_memory_after: 1) do |supervisor|
        supervisor.message
        # The other one takes requests meanwhile.
        2.times { |number| supervisor.fork_worker(number) }
        # Ten of one worker are enough.
        20.times { supervisor.request }
        collected = File.join(supervisor.folder, "collected")
        Timeout.timeout(FakeSupervisor::TIMEOUT) { Thread.pass until File.size?(collected) }
        # The supervisor is heard as before.
        2.times { |number| refute_empty supervisor.inspect_worker("Gc", number:) }
      end
    end
  end

  HOOKS = <<~RUBY
    after_fork { GC.disable; File.write("count", GC.count) }
    out_of_band { |worker| raise "first" }
    out_of_band { |worker| File.write("done", "\#{worker} \#{GC.count - File.read("count").to_i}") }
  RUBY

  def test_a_worker_collects_and_runs_its_hooks_between_requests
    [1, 3].each do |threads|
      files = { "config.ru" => "run ->(_) { [200, {}, []] }", "hooks.rb" => HOOKS }
      FakeSupervisor.open(files, threads:, out_of_band: 2) do |supervisor|
        supervisor.message
        supervisor.fork_worker
        done = File.join(supervisor.folder, "done")
        supervisor.request
        refute File.exist?(done)
        # One worker of two that could be there: no other one is idle, so it waits for its turn for ever.
        supervisor.fork_worker(1)
        requests = 0
        # What is there may still be empty.
        until File.size?(done)
          supervisor.request
          flunk "no work between requests" if (requests += 1) > 10_000
        end
        name, fields = supervisor.worker_message(File.read(done).to_i)
        assert_equal "Error", name
        assert_match(/\Aout_of_band failed: RuntimeError: first/, fields["message"])
        assert_match(/\A[01] 1\z/, File.read(done))
      end
    end
  end
end
