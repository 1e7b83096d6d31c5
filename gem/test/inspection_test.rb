# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "timeout"
require_relative "../lib/highball/inspection"

class InspectionTest < Minitest::Test
  BUSY = <<~RUBY
    def wait_here = [File.write("begun", ""), sleep]
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
