# frozen_string_literal: true

require "test_helper"
require "highball/warm_up"

# Requests of pages that clients ask for most, as far as time is concerned. The rest is in template_test.rb.
class WarmUpTest < Minitest::Test
  def warm_up(app, listed: [], frequent: [])
    faults = []
    warm_up = Highball::WarmUp.new(app, listed, frequent, seconds: 0.05) { |fault| faults << fault }
    [warm_up, faults]
  end

  def test_a_page_that_hangs_is_ended_and_leaves_no_thread
    seen = []
    closed = Queue.new
    app = lambda { |env|
      seen << env["PATH_INFO"]
      begin
        Queue.new.pop if env["PATH_INFO"] == "/hangs"
      ensure
        closed << true
      end
      [200, {}, []]
    }
    threads = Thread.list
    warm_up, faults = warm_up(app, listed: ["/listed"], frequent: %w[/a /hangs /b])
    warm_up.run
    assert_equal %w[/listed /a /hangs], seen
    assert_equal 3, closed.size
    late = "warm_up: the pages that clients ask for most took longer than 0.05 s at /hangs; the rest was left out"
    assert_equal [late], faults
    assert_equal threads, Thread.list
  end

  def test_an_application_that_catches_the_end_gets_no_further_request
    seen = []
    app = lambda { |env|
      seen << env["PATH_INFO"]
      begin
        Queue.new.pop
      rescue Exception # rubocop:disable Lint/RescueException -- as some middleware does
        [500, {}, []]
      end
    }
    warm_up, faults = warm_up(app, frequent: %w[/a /b])
    warm_up.run
    assert_equal ["/a"], seen
    assert_equal 2, faults.size
  end

  def test_what_fails_is_told_and_the_next_page_follows
    seen = []
    app = lambda { |env|
      seen << env["PATH_INFO"]
      raise "no" if env["PATH_INFO"] == "/a"

      [404, {}, []]
    }
    warm_up, faults = warm_up(app, frequent: %w[/a /b])
    warm_up.run
    assert_equal %w[/a /b], seen
    told = faults.map { |fault| fault.lines.first.chomp }
    assert_equal ["warm_up: /a failed: RuntimeError: no", "warm_up: /b was answered with status 404"], told
    assert_equal "2 pages in 0.00 s", warm_up.fact[1]
  end
end
