# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "timeout"

class WorkerTest < Minitest::Test
  def serve(config, files = {}, **start)
    FakeSupervisor.open({ "config.ru" => config, **files }, **start) do |supervisor|
      assert_equal "Booted", supervisor.message.first
      supervisor.fork_worker
      yield supervisor
    end
  end

  def exited(supervisor)
    name, fields = supervisor.message
    assert_equal "Exited", name
    fields["status"]
  end

  def test_hooks_run_where_they_belong
    hooks = <<~RUBY
      before_fork { File.write("before_fork", Process.pid) }
      after_fork { |worker| File.write("after_fork", "\#{Process.pid} \#{worker}") }
      before_worker_exit { |worker| File.write("before_worker_exit", "\#{Process.pid} \#{worker}") }
    RUBY
    serve("run ->(_) { [200, {}, [Process.pid.to_s]] }", { "hooks.rb" => hooks }) do |supervisor|
      read = ->(name) { File.read(File.join(supervisor.folder, name)) }
      worker = supervisor.request.body
      assert_equal [supervisor.pid.to_s, "#{worker} 0"], [read["before_fork"], read["after_fork"]]
      supervisor.front.stop(0)
      assert_equal "exit 0", exited(supervisor)
      assert_equal "#{worker} 0", read["before_worker_exit"]
    end
  end

  def test_a_hook_that_raises_is_reported_and_the_others_run
    hooks = <<~RUBY
      before_fork { raise "before" }
      after_fork { raise "first" }
      after_fork { raise "second" }
    RUBY
    FakeSupervisor.open({ "config.ru" => "run ->(_) { [200, {}, []] }", "hooks.rb" => hooks }) do |supervisor|
      supervisor.message
      ours, theirs = UNIXSocket.pair(:SEQPACKET)
      supervisor.send({ Fork: { worker: 0 } }, theirs)
      theirs.close
      messages = Array.new(3) { JSON.parse(ours.recv(65_536)).first }
      assert_equal %w[Error Error Ready], messages.map(&:first)
      assert_match(/\Aafter_fork failed: RuntimeError: first\n.*hooks\.rb:2/, messages[0].last["message"])
      assert_match(/second/, messages[1].last["message"])
      assert_match(/before_fork failed: RuntimeError: before/, supervisor.log)
      ours.close
    end
  end

  def test_a_worker_that_is_stopped_finishes_its_request
    config = 'run ->(_) { File.write("begun", ""); sleep 0.01 until File.exist?("go"); [200, {}, ["done"]] }'
    [1, 3].each do |threads|
      serve(config, threads:) do |supervisor|
        slot = supervisor.front.publish
        begun = File.join(supervisor.folder, "begun")
        Timeout.timeout(20) { Thread.pass until File.exist?(begun) }
        supervisor.front.stop(0)
        File.write(File.join(supervisor.folder, "go"), "")
        assert_equal "done", supervisor.front.answer(slot).body
        assert_equal "exit 0", exited(supervisor)
      end
    end
  end

  TAKES_OVER = <<~RUBY
    run lambda { |env|
      io = env["rack.hijack"].call
      env["PATH_INFO"] == "/thread" ? Thread.new { io.write(io.gets) and io.close } : (@io = io)
      [200, {}, []]
    }
  RUBY

  def test_a_stopped_worker_waits_for_hijacked_connections
    [1, 3].each do |threads|
      serve(TAKES_OVER, threads:) do |supervisor|
        supervisor.front.publish(path: "/thread")
        socket = supervisor.hijacked_socket
        supervisor.front.stop(0)
        # Half of a connection is one too.
        socket.write("still there\n")
        socket.close_write
        assert_equal "still there\n", socket.read
        assert_equal "exit 0", exited(supervisor)
      end
    end
  end

  def test_a_hijacked_connection_that_the_front_closed_delays_no_exit
    serve(TAKES_OVER) do |supervisor|
      supervisor.front.publish
      socket = supervisor.hijacked_socket
      supervisor.front.stop(0)
      socket.close
      assert_equal "exit 0", exited(supervisor)
    end
  end

  def test_term_stops_one_worker_gracefully_and_int_is_ignored
    [1, 3].each do |threads|
      serve("run ->(_) { [200, {}, [Process.pid.to_s]] }", threads:) do |supervisor|
        pid = supervisor.request.body.to_i
        Process.kill("INT", pid)
        assert_equal pid.to_s, supervisor.request.body
        Process.kill("TERM", pid)
        assert_equal "exit 0", exited(supervisor)
      end
    end
  end

  def test_threads_run_requests_at_the_same_time
    config = <<~RUBY
      turn = Queue.new
      other = Queue.new
      run lambda { |env|
        env["PATH_INFO"] == "/a" ? (turn << 1; other.pop) : (turn.pop; other << 1)
        [200, {}, ["ok"]]
      }
    RUBY
    serve(config, threads: 2) do |supervisor|
      slots = %w[/a /b].map { |path| supervisor.front.publish(path:) }
      assert_equal(%w[ok ok], slots.map { |slot| supervisor.front.answer(slot).body })
    end
  end

  LATE = <<~RUBY
    def wait_here = [File.write("begun", ""), sleep]
    def burn = loop { @begun ||= File.write("begun", "") }
    def finish = [File.write("begun", ""), (sleep(0.01) until File.exist?("go"))]
    def follow(env) = env["rack.after_reply"] << -> { wait_here }
    run lambda { |env|
      env["PATH_INFO"] == "/follow" ? follow(env) : __send__(env["PATH_INFO"].delete("/"))
      [200, {}, []]
    }
  RUBY

  # Runs the application's method of that name in a request, and yields its slot and one answer for each thread.
  def trace(name, threads)
    serve(LATE, threads:) do |supervisor|
      slot = supervisor.front.publish(path: "/#{name}")
      begun = File.join(supervisor.folder, "begun")
      Timeout.timeout(20) { Thread.pass until File.exist?(begun) }
      yield supervisor, slot, Array.new(threads) { |thread| supervisor.backtrace(thread:, slot:) }
    end
  end

  def test_a_worker_tells_where_the_thread_of_a_request_is
    [1, 3].each do |threads|
      { wait_here: 1, burn: 2 }.each do |name, line|
        trace(name, threads) do |_, _, answers|
          told = answers.reject(&:empty?)
          assert_equal 1, told.size, "only one of #{threads} threads has it"
          assert(told.first.any? { |frame| frame.match?(/config\.ru:#{line}:in .*#{name}/) }, told.first.inspect)
        end
      end
    end
  end

  def test_a_worker_tells_where_a_thread_is_with_what_follows_a_response
    trace(:follow, 1) do |_, _, answers|
      assert(answers.first.any? { |frame| frame.match?(/config\.ru:1:in .*wait_here/) }, answers.first.inspect)
    end
  end

  def test_a_worker_tells_nothing_of_a_request_that_it_does_not_run
    trace(:finish, 1) do |supervisor, slot, answers|
      refute_empty answers.first
      assert_empty supervisor.backtrace(thread: 0, slot:, sequence: 2)
      assert_empty supervisor.backtrace(thread: 0, slot: slot + 1)
      assert_empty supervisor.backtrace(thread: 7, slot:)
      File.write(File.join(supervisor.folder, "go"), "")
      supervisor.front.answer(slot)
      assert_empty supervisor.backtrace(thread: 0, slot:)
    end
  end

  def test_a_thread_that_is_killed_is_replaced
    config = 'run ->(env) { Thread.current.kill if env["PATH_INFO"] == "/kill"; [200, {}, ["ok"]] }'
    serve(config, threads: 2) do |supervisor|
      4.times { assert_match(/was ended/, supervisor.request(path: "/kill").error) }
      assert_equal "ok", supervisor.request.body
    end
  end

  def test_a_worker_does_not_hold_the_templates_socket
    serve("run ->(_) { sleep }") do |supervisor|
      supervisor.front.publish
      Process.kill("KILL", supervisor.pid)
      # The end of the template shows while its worker is busy.
      assert_nil supervisor.message
      supervisor.wait
    end
  end

  # Rack 3 is told by its release; its `to_ary` closes the body, and nothing may close it again.
  def test_a_body_that_becomes_an_array_under_rack_3_is_closed_once
    config = <<~RUBY
      def Rack.release = "3.1.0"
      body = Object.new
      def body.to_ary = [close.to_s]
      def body.close = @closed = @closed.to_i + 1
      run ->(_) { [200, {}, body] }
    RUBY
    serve(config) { |supervisor| assert_equal(%w[1 2], Array.new(2) { supervisor.request.body }) }
  end

  def test_at_exit_blocks_run_in_the_worker
    serve('run ->(_) { at_exit { File.write("at_exit", "") }; [200, {}, []] }') do |supervisor|
      supervisor.request
      supervisor.front.stop(0)
      assert_equal "exit 0", exited(supervisor)
      assert File.exist?(File.join(supervisor.folder, "at_exit"))
    end
  end

  # RUBY_MN_THREADS is Ruby 3.3's and later ones'; before, it says nothing to Ruby.
  def test_rubys_mn_scheduler_changes_nothing_but_a_warning
    config = <<~RUBY
      turn, other = Queue.new, Queue.new
      run lambda { |env|
        env["PATH_INFO"] == "/a" ? (turn << 1; other.pop) : (turn.pop; other << 1)
        [200, {}, [Thread.new { sleep 0.01; "ok" }.value]]
      }
    RUBY
    [1, 3].each do |threads|
      FakeSupervisor.open({ "config.ru" => config }, threads:, variables: { "RUBY_MN_THREADS" => "1" }) do |supervisor|
        advice = supervisor.message[1]["gems"].grep(/RUBY_MN_THREADS/)
        assert_equal RUBY_VERSION >= "3.3" ? 1 : 0, advice.size, advice
        supervisor.fork_worker
        next assert_in_turn(supervisor) if threads > 1

        supervisor.front.stop(0)
        assert_equal "exit 0", exited(supervisor)
      end
    end
  end

  def test_the_application_may_be_checked_by_rack_in_every_thread
    config = 'use Rack::Lint
              run ->(env) { [200, { "content-type" => "text/plain" }, [env["rack.multithread"].to_s]] }'
    serve(config, threads: 2) { |supervisor| 5.times { assert_equal "true", supervisor.request.body } }
  end

  private

  def assert_in_turn(supervisor)
    30.times do
      slots = %w[/a /b].map { |path| supervisor.front.publish(path:) }
      assert_equal(%w[ok ok], slots.map { |slot| supervisor.front.answer(slot).body })
    end
    supervisor.front.stop(0)
    assert_equal "exit 0", exited(supervisor)
  end
end
