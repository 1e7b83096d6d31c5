# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "highball/purges"
require "timeout"

# Highball.purge: in a worker, whose supervisor is played here, and everywhere else.
class PurgesTest < Minitest::Test
  PURGE = <<~RUBY
    run lambda { |env|
      result =
        begin
          Highball.purge(**eval(env["QUERY_STRING"]))
        rescue StandardError => error
          error.class
        end
      [200, {}, [result.inspect]]
    }
  RUBY

  def serve(**start)
    FakeSupervisor.open({ "config.ru" => PURGE }, **start) do |supervisor|
      assert_equal "Booted", supervisor.message.first
      supervisor.fork_worker
      yield supervisor
    end
  end

  # What a worker asks for with these arguments, and what its application gets for these results.
  def purge(supervisor, arguments, *results)
    slot = supervisor.front.publish(query: arguments)
    name, fields = supervisor.worker_message
    assert_equal "Purge", name
    results.each { |result| supervisor.purged(fields["id"], result) }
    [fields["what"], supervisor.front.answer(slot).body]
  end

  def test_the_server_forgets_what_is_named_and_says_how_much
    serve do |supervisor|
      assert_equal [{ "Url" => "/a" }, "1"], purge(supervisor, "{url:'/a'}", { Urls: 1 })
      assert_equal [{ "Prefix" => "/a/" }, "70000"], purge(supervisor, "{prefix:'/a/'}", { Urls: 70_000 })
      assert_equal [{ "Tag" => "a-1" }, "nil"], purge(supervisor, "{tag: :'a-1'}", "NoCache")
      assert_equal "Highball::PurgeFailed", purge(supervisor, "{tag:'a'}", "Refused").last
    end
  end

  def test_answers_go_to_the_threads_that_asked
    serve(threads: 2) do |supervisor|
      slots = %w[a b].map { |tag| supervisor.front.publish(query: "{tag:'#{tag}'}") }
      ids = Array.new(2) { supervisor.worker_message.last }.to_h { |asked| [asked["what"]["Tag"], asked["id"]] }
      supervisor.purged(ids["a"] + 1000, { Urls: 9 })
      supervisor.purged(ids["b"], { Urls: 2 })
      supervisor.purged(ids["a"], { Urls: 1 })
      assert_equal(%w[1 2], slots.map { |slot| supervisor.front.answer(slot).body })
    end
  end

  def test_what_names_nothing_or_too_much_is_refused
    serve do |supervisor|
      ["{}", "{url:'/a',tag:'b'}", "{url:''}", "{url:'/'*8193}"].each do |arguments|
        assert_equal "ArgumentError", supervisor.request(query: arguments).body, arguments
      end
    end
  end

  def test_it_does_nothing_where_no_worker_is
    assert_nil Highball.purge(url: "/a")
    assert_raises(ArgumentError) { Highball.purge }
  end

  def test_a_process_that_the_application_forks_purges_nothing
    config = <<~RUBY
      run lambda { |env|
        reader, writer = IO.pipe
        child = fork do
          writer.write(Highball.purge(url: "/a").inspect)
          exit!
        end
        writer.close
        Process.wait(child)
        [200, {}, [reader.read]]
      }
    RUBY
    FakeSupervisor.open({ "config.ru" => config }) do |supervisor|
      supervisor.message
      supervisor.fork_worker
      assert_equal "nil", supervisor.request.body
    end
  end
end
