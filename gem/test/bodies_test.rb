# frozen_string_literal: true

require "test_helper"
require "highball/bodies"

# Highball::Bodies: which thread gets which file, played without a front.
class BodiesTest < Minitest::Test
  # A worker thread that asks; its request has this sequence number.
  Asking = Struct.new(:number, :sequence, :asked) do
    def ask_for_body
      asked << self
      sequence
    end
  end

  def setup
    @bodies = Highball::Bodies.new(2)
    @asked = Queue.new
  end

  def asking(number, sequence)
    Thread.new { @bodies.open(Asking.new(number, sequence, @asked)) }.tap { @asked.pop }
  end

  def descriptor(text)
    Tempfile.create("body") do |file|
      file.write(text)
      file.flush
      return IO.sysopen(file.path)
    end
  end

  def test_each_thread_gets_the_body_of_its_request
    threads = [asking(0, 7), asking(1, 8)]
    @bodies.answer(1, 8, descriptor("of 8"))
    @bodies.answer(0, 7, descriptor("of 7"))
    assert_equal(["of 7", "of 8"], threads.map { |thread| thread.value.read })
    assert_kind_of File, asking(0, 9).tap { @bodies.answer(0, 9, descriptor("of 9")) }.value
  end

  def test_an_answer_to_an_earlier_request_is_closed
    late = descriptor("late")
    @bodies.answer(0, 3, late)
    assert_raises(Errno::EBADF) { IO.for_fd(late) }
    thread = asking(0, 4)
    @bodies.answer(0, 3, descriptor("late"))
    @bodies.answer(0, 4, descriptor("of 4"))
    assert_equal "of 4", thread.value.read
  end

  def test_a_body_that_the_front_cannot_open_is_an_error
    thread = asking(0, 1)
    thread.report_on_exception = false
    @bodies.answer(0, 1, nil)
    error = assert_raises(Highball::BodyMissing) { thread.value }
    assert_match(/could not open/, error.message)
  end
end
