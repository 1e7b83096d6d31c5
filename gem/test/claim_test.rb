# frozen_string_literal: true

require "test_helper"
require "timeout"

# Whose bytes are these? What a response's body, stream or connection writes reaches that response, or nobody.
class ClaimTest < Minitest::Test
  include OwnWorker

  # What the block raises. Minitest's own assertion would be an error of the application.
  RAISED = lambda do |&block|
    block.call
    nil
  rescue StandardError => error
    error
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

  def test_a_stream_that_a_thread_still_writes_cannot_write_into_the_next_response
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
  def test_hints_of_a_request_that_is_over_do_not_get_into_the_head_of_the_next
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
    assert_equal [["X-First", "1"]], answer.fields
    answer = request(lambda do |_|
      other = Object.new
      other.define_singleton_method(:to_s) do
        gate << "old"
        hints.join
        "2"
      end
      [200, { "X-Second" => other }, []]
    end)
    assert_equal [%i[head end], [["X-Second", "2"]]], [answer.kinds, answer.fields]
  end

  def test_headers_may_have_values_that_only_ruby_turns_into_strings
    answer = request(->(_) { [200, { "X-Number" => 5, "X-Many" => [1, :two], "X-None" => nil }, ["body"]] })
    assert_equal [["X-Number", "5"], %w[X-Many 1], %w[X-Many two], ["X-None", ""]], answer.fields
    assert_equal "body", answer.body
  end
end
