# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "timeout"
require_relative "../lib/highball/inspection"

class InspectionTest < Minitest::Test
  BUSY = <<~RUBY
    def wait_here = [File.write("begun", ""), sleep]
    def burn = loop { @begun ||= File.write("begun", "") }
    run ->(env) { __send__(env["PATH_INFO"].delete("/")) }
  RUBY

  # Runs the application's method of that name in a request.
  def running(name, threads: 1)
    FakeSupervisor.open({ "config.ru" => BUSY }, threads:) do |supervisor|
      raise "not booted" unless supervisor.message.first == "Booted"

      supervisor.fork_worker
      supervisor.front.publish(path: "/#{name}")
      begun = File.join(supervisor.folder, "begun")
      Timeout.timeout(20) { Thread.pass until File.exist?(begun) }
      yield supervisor
    end
  end

  # A profile's figures (idle, dropped, microseconds, CPU), the names of its frames, its nodes (parent, frame, samples).
  def profile(supervisor, milliseconds)
    lines = supervisor.inspect_worker({ Profile: { milliseconds: } }).join.lines(chomp: true)
    by_kind = lines.group_by { |line| line[/\A\w+/] }
    numbers = ->(line) { line.split.drop(1).map(&:to_i) }
    [numbers.call(by_kind["profile"].first), by_kind.fetch("f", []).map { |line| line.delete_prefix("f ") },
     by_kind.fetch("n", []).map(&numbers)]
  end

  # The share of the samples with a frame that matches.
  def share(frames, nodes, pattern)
    wanted = nodes.each_with_index.select do |_, at|
      number = at + 1
      number = nodes[number - 1][0] until number.zero? || frames[nodes[number - 1][1]].match?(pattern)
      number.positive?
    end
    wanted.sum { |(_, _, own), _| own } / nodes.sum(&:last).to_f
  end

  def test_a_profile_finds_what_computes_and_what_waits
    { burn: /config\.ru:2:in .*burn/, wait_here: /config\.ru:1:in .*wait_here/ }.each do |name, pattern|
      running(name) do |supervisor|
        (idle, dropped, wall, cpu), frames, nodes = profile(supervisor, 500)
        assert_operator share(frames, nodes, pattern), :>=, 0.9, frames.inspect
        assert_equal [0, 0], [idle, dropped]
        assert_operator wall, :>=, 500_000
        assert_operator cpu, :<, wall
      end
    end
  end

  def test_threads_that_wait_for_requests_are_counted_apart
    running(:wait_here, threads: 3) do |supervisor|
      (idle,), frames, nodes = profile(supervisor, 200)
      own = nodes.sum(&:last)
      assert_equal 2 * own, idle, frames.inspect
    end
  end

  def test_a_profile_ends_with_its_thread
    running(:wait_here) do |supervisor|
      profile(supervisor, 20)
      threads = supervisor.inspect_worker("Backtraces").join.lines.grep(/\At /)
      assert_empty threads.grep(/profiler/)
      assert_equal 1, threads.grep(/request thread 0/).size, threads.inspect
    end
  end

  def test_backtraces_name_each_thread_and_its_frames
    running(:wait_here, threads: 2) do |supervisor|
      text = supervisor.inspect_worker("Backtraces").join
      assert_match(/^t sleep\w* request thread [01]\nl .*\n(?:l .*\n)*l .*config\.ru:1:in .*wait_here/, text)
      assert_match(/^t run highball messages$/, text)
    end
  end

  def test_figures_of_the_garbage_collector_are_numbers
    running(:wait_here) do |supervisor|
      lines = supervisor.inspect_worker("Gc").join.lines(chomp: true)
      assert(lines.all? { |line| line.match?(/\A[a-z0-9_]+ \d+\z/) }, lines.inspect)
      assert(lines.any? { |line| line.start_with?("count ") }, lines.inspect)
    end
  end

  def test_a_profile_stays_within_its_bounds
    profiler = Highball::Profiler.new([])
    limit = Highball::Profiler::MAX_NODES
    lines = Array.new(limit + 10) { |number| "app.rb:#{number}:in `deep'" }
    3.times { profiler.send(:add, lines, 2) }
    profiler.send(:add, ["other"], 1)
    report = profiler.report(1, 0).lines
    assert_equal limit, report.grep(/\An /).size
    assert_match(/\Aprofile 0 7 /, report.first)
  end

  def test_a_frame_is_one_line_of_utf8
    assert_equal "a b c", Highball::Inspection.line("a\nb\rc", 100)
    assert_equal "a\u{fffd}", Highball::Inspection.line("a\xE9".dup.force_encoding("UTF-8"), 100)
    assert_predicate Highball::Inspection.line("é" * 100, 101), :valid_encoding?
  end

  def test_a_long_answer_comes_in_pieces
    FakeSupervisor.open({ "config.ru" => <<~'RUBY' }) do |supervisor|
      run lambda { |_env|
        100.times { Thread.new { sleep }.name = "\u{1}\u{20ac}" * 200 }
        [200, {}, ["ok"]]
      }
    RUBY
      raise "not booted" unless supervisor.message.first == "Booted"

      supervisor.fork_worker
      supervisor.request
      pieces = supervisor.inspect_worker("Backtraces")
      assert_operator pieces.size, :>, 1
      assert_operator pieces.join.lines.grep(/\At /).size, :>, 100
    end
  end
end
