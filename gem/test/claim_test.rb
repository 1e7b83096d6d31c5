# frozen_string_literal: true

require "test_helper"
require "timeout"

# Whose bytes are these? What a response's body, stream or connection writes reaches that response, or no client.
class ClaimTest < Minitest::Test
  include OwnWorker

  # What the block raises. Minitest's own assertion would be an error of the application.
  RAISED = lambda do |&block|
    block.call
    nil
  rescue StandardError => error
    error
  end

  # Of two requests that one thread serves, one after the other.
  def answers_of_one_thread(app)
    slots = %w[/first /second].map { |path| front.publish(path:) }
    runner = Highball::Runner.new(app, OwnWorker.worker_thread)
    thread = Thread.new do
      served = 0
      while served < 2
        env = OwnWorker.worker_thread.take
        served += 1
        runner.__send__(:serve, env)
      end
    end
    slots.map { |slot| front.answer(slot) }.tap { thread.join }
  end

  # Waits until a thread sleeps in a call, as one does whose response's buffer is full.
  def until_asleep(thread)
    Timeout.timeout(20) { Thread.pass until thread.stop? }
  end

  def test_a_block_that_a_body_kept_cannot_write_into_the_next_response
    kept = nil
    keeping = Object.new
    keeping.define_singleton_method(:each) { |&block| (kept = block).call("first") }
    assert_equal "first", request(->(_) { [200, {}, keeping] }).body
    late = nil
    second = Object.new
    second.define_singleton_method(:each) do |&block|
      block.call("second")
      late = RAISED.call { kept.call("of the first client") }
    end
    assert_equal "second", request(->(_) { [200, {}, second] }).body
    assert_instance_of Highball::ResponseOver, late
  end

  def test_a_thread_that_still_writes_a_stream_misses_the_next_response
    helper = nil
    streaming = lambda do |stream|
      helper = Thread.new { RAISED.call { loop { stream.write("A" * 40_000) } } }
      until_asleep(helper)
    end
    first = request(->(_) { [200, {}, streaming] }) do |slot|
      # Nothing of it is taken before its end is there, so the helper waits for room in a response that is over.
      Timeout.timeout(20) { Thread.pass until front.done?(slot) }
      front.answer(slot)
    end
    assert_equal :end, first.kinds.last
    assert_equal "B" * 300_000, request(->(_) { [200, {}, ["B" * 300_000]] }).body
    assert_instance_of Highball::ResponseOver, helper.value
  end

  def test_two_threads_that_write_one_stream_both_come_to_their_end
    10.times do
      streaming = lambda do |stream|
        writers = %w[A B].map { |letter| Thread.new { 8.times { stream.write(letter * 30_000) } } }
        writers.each(&:join)
      end
      answer = request(->(_) { [200, {}, streaming] }) do |slot|
        # Both wait for room before any is made.
        frames = [front.frame(slot)]
        front.answer(slot).tap { |rest| rest.frames.unshift(*frames) }
      end
      assert_equal :end, answer.kinds.last
      assert_equal({ "A" => 240_000, "B" => 240_000 }, answer.body.chars.tally)
    end
  end

  # Ruby code that turns a header's value into a string may let another thread run in the middle of a head.
  def test_hints_of_an_ended_request_do_not_get_into_the_next_head
    slow = Object.new
    gate = Queue.new
    slow.define_singleton_method(:to_s) { gate.pop }
    hints = nil
    answer = request(lambda do |env|
      # It has looked whose request runs, and is about to write.
      hints = Thread.new { env["rack.early_hints"].call("X-Old" => slow) }
      until_asleep(hints)
      [200, { "X-First" => "1" }, []]
    end)
    assert_equal [%w[X-First 1]], answer.fields
    answer = request(lambda do |_|
      other = Object.new
      other.define_singleton_method(:to_s) do
        gate << "old"
        hints.join
        "2"
      end
      [200, { "X-Second" => other }, []]
    end)
    assert_equal [%i[head end], [%w[X-Second 2]]], [answer.kinds, answer.fields]
  end

  def test_hints_that_waited_until_the_response_began_are_skipped
    hints = nil
    link = { "Link" => "x" * 30_000 }
    begun = Queue.new
    gate = Queue.new
    app = lambda do |env|
      hints = Thread.new { RAISED.call { 3.times { env["rack.early_hints"].call(link) } } }
      until_asleep(hints)
      [200, {}, Enumerator.new { |chunks| chunks << "body" and begun << true and gate.pop }]
    end
    answer = request(app) do |slot|
      begun.pop
      frames = Array.new(3) { front.frame(slot) }
      hints.join
      gate << true
      front.answer(slot).tap { |rest| rest.frames.unshift(*frames) }
    end
    assert_equal %i[hints hints head chunk end], answer.kinds
    assert_nil hints.value
  end

  def test_a_continuation_of_an_earlier_request_cannot_answer_the_next
    require "continuation"
    kept = nil
    run = lambda do |env|
      text = env["PATH_INFO"]
      callcc { |continuation| kept = continuation } unless kept
      kept.call if text == "/second" && !kept.nil?
      [200, {}, [text]]
    end
    first, second = answers_of_one_thread(run)
    assert_equal "/first", first.body
    assert_equal ["", %i[error]], [second.body, second.kinds]
    assert_match(/ResponseOver/, second.error)
  end

  def test_a_continuation_of_an_earlier_body_cannot_end_the_next_response
    require "continuation"
    kept = nil
    run = lambda do |env|
      body = Object.new
      body.define_singleton_method(:each) do |&block|
        block.call(env["PATH_INFO"])
        kept ? kept.call : callcc { |continuation| kept = continuation }
      end
      [200, {}, body]
    end
    first, second = answers_of_one_thread(run)
    assert_equal %i[head chunk end], first.kinds
    assert_equal ["/second", %i[head chunk error]], [second.body, second.kinds]
  end

  def test_what_is_written_after_the_client_left_says_so_each_time
    errors = []
    helper = nil
    streaming = lambda do |stream|
      helper = Thread.new { errors << RAISED.call { loop { stream.write("x" * 30_000) } } }
      helper.join
      2.times { errors << RAISED.call { stream.write("more") } }
    end
    request(->(_) { [200, {}, streaming] }) do |slot|
      front.frame(slot)
      front.abandon(slot)
      front.answer(slot)
    end
    assert_equal [Highball::ClientGone] * 3, errors.map(&:class)
  end

  def test_an_answer_after_hints_that_the_client_did_not_wait_for_is_no_error
    failure = nil
    app = lambda do |env|
      env["rack.response_finished"] << ->(*, error) { failure = error }
      RAISED.call { loop { env["rack.early_hints"].call("Link" => "x" * 1000) } }
      [200, {}, ["body"]]
    end
    answer = request(app) do |slot|
      front.frame(slot)
      front.abandon(slot)
      front.answer(slot)
    end
    assert_empty answer.kinds - [:hints]
    assert_instance_of Highball::ClientGone, failure
  end

  def test_headers_need_no_more_than_each
    headers = Object.new
    headers.define_singleton_method(:each) { |&block| [%w[X-A 1], %w[X-B 2], %w[X-A 3]].each(&block) }
    answer = request(->(_) { [200, headers, ["body"]] })
    assert_equal [%w[X-A 1], %w[X-A 3], %w[X-B 2]], answer.fields
  end

  def test_headers_may_have_values_that_only_ruby_turns_into_strings
    answer = request(->(_) { [200, { "X-Number" => 5, "X-Many" => [1, :two], "X-None" => nil }, ["body"]] })
    assert_equal [%w[X-Number 5], %w[X-Many 1], %w[X-Many two], ["X-None", ""]], answer.fields
    assert_equal "body", answer.body
  end
end
