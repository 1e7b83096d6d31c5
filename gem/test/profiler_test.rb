# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "timeout"
require_relative "../lib/highball/inspection"

# Profiles of real workers, in both modes.
class ProfilerTest < Minitest::Test
  BUSY = <<~'RUBY'
    require "zlib"
    def begun = File.write("begun", ".", mode: "a")
    def burn = (begun; loop { @turns = @turns.to_i + 1 })
    def wait_here = (begun; sleep)
    def both = (begun; loop { compute_a_while; sleep_a_while })
    def compute_a_while = Array.new(20_000) { |number| number.to_s }.sum(&:size)
    def sleep_a_while = sleep(0.02)
    # zlib lets go of Ruby's lock meanwhile.
    def without_lock = (text = Random.bytes(20_000_000); begun; loop { compress(text) })
    def compress(text) = Zlib::Deflate.deflate(text)
    def objects = (begun; loop { Array.new(10) { |number| "#{number}" } })
    # Again and again collects at every object, and ends a thread that does the same.
    def stress
      begun
      loop do
        GC.stress = true
        thread = Thread.new { loop { Array.new(3) { Object.new } } }
        compute_objects
        thread.kill.join
        GC.stress = false
        sleep(0.001)
      end
    end
    def compute_objects = 20.times { Array.new(3) { |number| "#{number}" } }
    # Each child collects its parent's sampler, and ends as Ruby does.
    def forks
      begun
      loop do
        compute_a_while
        child = fork { GC.start; compute_a_while }
        Process.wait(child)
        File.write("failed", $?.inspect) unless $?.success?
      end
    end
    # Ends its own thread, which the worker replaces.
    def replaced = (begun; 200_000.times { @turns = @turns.to_i + 1 }; Thread.current.kill)
    def deep = nest(5_000)
    def nest(depth) = depth.zero? ? burn : nest(depth - 1)
    # Each turn has other stacks.
    def many
      begun
      loop do
        name = "m#{@turns = @turns.to_i + 1}"
        eval("def #{name}(depth) = depth.zero? ? compute_a_while : #{name}(depth - 1); #{name}(390)", binding, name, 1)
      end
    end
    run ->(env) { __send__(env["PATH_INFO"].delete("/")) }
  RUBY

  # What a worker says: figures, and its tree as [frames, nodes], where a node is [parent, frame, own samples].
  Profile = Struct.new(:idle, :dropped, :wall_us, :cpu_us, :used_us, :taken, :frames, :nodes) do
    def samples
      nodes.sum(&:last)
    end

    # The share of the samples with a frame that matches.
    def share(pattern)
      wanted = nodes.each_with_index.select do |_, at|
        number = at + 1
        number = nodes[number - 1][0] until number.zero? || frames[nodes[number - 1][1]].match?(pattern)
        number.positive?
      end
      wanted.sum { |(_, _, own), _| own } / samples.to_f
    end
  end

  # Runs the application's method of that name in so many requests.
  def running(name, threads: 1, requests: 1)
    FakeSupervisor.open({ "config.ru" => BUSY }, threads:) do |supervisor|
      raise "not booted" unless supervisor.message.first == "Booted"

      @pid = supervisor.fork_worker
      requests.times { supervisor.front.publish(path: "/#{name}") }
      begun = File.join(supervisor.folder, "begun")
      Timeout.timeout(60) { Thread.pass until File.size?(begun).to_i >= requests }
      yield supervisor
    end
  end

  def profile(supervisor, milliseconds, mode)
    lines = supervisor.inspect_worker({ Profile: { milliseconds:, mode: } }).join.lines(chomp: true)
    by_kind = lines.group_by { |line| line[/\A\w+/] }
    numbers = ->(line) { line.split.drop(1).map(&:to_i) }
    refute_includes by_kind, "error", lines.first
    Profile.new(*numbers.call(by_kind["profile"].first), by_kind.fetch("f", []).map { |line| line.delete_prefix("f ") },
                by_kind.fetch("n", []).map(&numbers))
  end

  def profile_of(name, milliseconds, mode, **running)
    running(name, **running) { |supervisor| profile(supervisor, milliseconds, mode) }
  end

  # Native threads of the worker with the sampler's name.
  def samplers
    Dir["/proc/#{@pid}/task/*/comm"].map { |path| File.read(path) }.grep(/\Ahighball-sample/)
  end

  def test_wall_time_finds_what_computes_and_what_waits
    { burn: /config\.ru:3:in .*burn/, wait_here: /config\.ru:4:in .*wait_here/ }.each do |name, pattern|
      profile = profile_of(name, 500, "wall")
      assert_operator profile.share(pattern), :>=, 0.9, profile.frames.inspect
      assert_equal [0, 0], [profile.idle, profile.dropped]
      assert_operator profile.wall_us, :>=, 500_000
      assert_operator profile.cpu_us, :<, profile.wall_us
    end
  end

  def test_wall_time_counts_threads_that_wait_for_requests_apart
    profile = profile_of(:wait_here, 200, "wall", threads: 3)
    assert_equal 2 * profile.samples, profile.idle, profile.frames.inspect
  end

  def test_cpu_time_is_sampled_99_times_a_second
    profile = profile_of(:burn, 2000, "cpu")
    seconds = profile.used_us / 1e6
    assert_operator profile.share(/config\.ru:3:in .*burn/), :>=, 0.9, profile.frames.inspect
    assert_operator profile.taken / seconds, :>=, 70, "stacks of #{seconds} s"
    assert_in_delta 99, profile.samples / seconds, 5, "samples of #{seconds} s"
    assert_operator profile.cpu_us, :<, 0.05 * profile.wall_us
  end

  def test_a_frame_of_cpu_time_is_one_of_a_backtrace
    running(:objects) do |supervisor|
      frames = profile(supervisor, 500, "cpu").frames
      # Of a block the extension sees the method alone.
      names = ->(mode) { profile(supervisor, 500, mode).frames.map { |frame| frame.sub(/block .*in /, "") }.uniq }
      lines = %w[cpu wall].map { |mode| names.call(mode).grep(/ru:11|runner\.rb/) }
      assert_empty lines.first.grep_v(/:\d+:in [`'].+'\z/), lines.first
      assert_operator (lines.first & lines.last).size, :>=, lines.last.size - 2, lines.inspect
      assert_includes frames.join("\n"), "Array", frames.inspect if RUBY_VERSION >= "3.4"
    end
  end

  def test_what_sleeps_is_in_wall_time_and_not_in_cpu_time
    running(:both) do |supervisor|
      wall, cpu = %w[wall cpu].map { |mode| profile(supervisor, 1500, mode) }
      assert_operator wall.share(/sleep_a_while/), :>=, 0.3
      assert_operator cpu.share(/sleep_a_while/), :<=, 0.1, cpu.nodes.inspect
      assert_operator cpu.share(/compute_a_while/), :>=, 0.9, cpu.frames.inspect
    end
    asleep = profile_of(:wait_here, 300, "cpu")
    assert_operator asleep.samples, :<=, 1, asleep.frames.inspect
  end

  def test_what_computes_without_rubys_lock_is_found
    [1, 3].each do |threads|
      profile = profile_of(:without_lock, 1500, "cpu", threads:, requests: threads)
      assert_operator profile.share(/compress/), :>=, 0.9, profile.frames.inspect
      # The last ones of each thread may be missing.
      assert_in_delta 99, profile.samples / (profile.used_us / 1e6), 25
    end
  end

  def test_five_threads_are_sampled_by_their_cpu_time
    profile = profile_of(:burn, 2000, "cpu", threads: 5, requests: 5)
    assert_operator profile.share(/burn/), :>=, 0.9, profile.frames.inspect
    # The last ones of each thread may be missing. By the time on the clock there would be five times as many.
    assert_in_delta 99, profile.samples / (profile.used_us / 1e6), 25
  end

  def test_a_thread_that_is_replaced_is_sampled_on
    running(:replaced, threads: 2) do |supervisor|
      feed = Thread.new { loop { supervisor.request(path: "/replaced") } }
      profile = profile(supervisor, 1500, "cpu")
      feed.kill.join
      assert_operator profile.share(/replaced/), :>=, 0.5, profile.frames.inspect
    end
  end

  def test_a_profile_survives_a_collection_at_every_object
    running(:stress, threads: 2, requests: 2) do |supervisor|
      %w[cpu cpu wall].each { |mode| assert_operator profile(supervisor, 700, mode).wall_us, :>=, 700_000 }
      assert_equal 2, supervisor.inspect_worker("Backtraces").join.scan(/request thread/).size
    end
  end

  def test_children_of_the_application_are_not_sampled_and_end_well
    running(:forks) do |supervisor|
      2.times { assert_operator profile(supervisor, 1000, "cpu").samples, :>, 0 }
      refute File.exist?(File.join(supervisor.folder, "failed")), supervisor.log
    end
  end

  def test_deep_stacks_are_cut_and_many_are_counted
    deep = profile_of(:deep, 300, "cpu")
    assert_operator deep.share(/burn/), :>=, 0.9
    assert_operator deep.nodes.size, :<=, 1000
    many = profile_of(:many, 3000, "cpu")
    assert_operator many.nodes.size, :<=, 20_000
    assert_operator many.dropped, :>, 0, many.nodes.size
  end

  def test_a_profile_leaves_no_thread
    running(:burn) do |supervisor|
      profile = Thread.new { profile(supervisor, 500, "cpu") }
      Timeout.timeout(20) { Thread.pass while samplers.empty? }
      profile.join
      assert_empty samplers
      refute_match(/highball profiler/, supervisor.inspect_worker("Backtraces").join)
    end
  end

  def test_a_worker_stops_while_it_is_profiled
    running(:both) do |supervisor|
      supervisor.inspect_worker("Gc")
      profile = Thread.new { profile(supervisor, 60_000, "cpu") rescue :ended } # rubocop:disable Style/RescueModifier
      Timeout.timeout(20) { Thread.pass while samplers.empty? }
      Process.kill("TERM", @pid)
      supervisor.hang_up(0)
      Timeout.timeout(20) { Thread.pass while File.exist?("/proc/#{@pid}/comm") }
      profile.kill.join
    end
  end

  def test_text_stays_within_its_bounds
    sampler = Highball::Sampler.new(0)
    lines = Array.new(400) { |number| "#{"x" * 600}#{number}" }
    100.times { |turn| sampler.add(lines.map { |line| "#{turn}#{line}" }, 2) }
    nodes = 1.step.lazy.map { |number| sampler.node(number) }.take_while(&:itself).to_a
    assert_operator nodes.size, :<=, 20_000
    assert_equal 512, nodes.first.last.bytesize
    dropped, taken, = sampler.figures
    assert_equal [200, 100], [dropped + nodes.sum { |node| node[1] }, taken]
  end
end
