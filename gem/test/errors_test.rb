# frozen_string_literal: true

require "test_helper"

class ErrorsTest < Minitest::Test
  include OwnWorker

  # An exception with methods of its own, raised here.
  def raised(parent = StandardError, message: "m", &methods)
    raise Class.new(parent, &methods), message
  rescue Exception => error # rubocop:disable Lint/RescueException
    error
  end

  def described(error)
    text = Highball.describe(error)
    assert_equal [Encoding::UTF_8, true], [text.encoding, text.valid_encoding?], text.b
    assert_match(/errors_test\.rb:\d+/, text, "the backtrace is lost")
    text
  end

  def test_a_message_of_any_encoding_is_valid_utf8
    {
      "caf\u00e9" => "caf\u00e9",
      "caf\u00e9".b => "caf\u00e9",
      "a\xFF\xFEb".b => "a\\xFF\\xFEb",
      "a\xFFb" => "a\\xFFb",
      "caf\u00e9".encode("UTF-16LE") => "caf\u00e9",
      "caf\u00e9".encode("ISO-8859-1") => "caf\u00e9",
      "a\xFF".dup.force_encoding("UTF-7") => "a\\xFF"
    }.each do |message, expected|
      assert_includes described(raised(message:)), ": #{expected}\n"
    end
  end

  def test_a_binary_message_wrapped_by_a_utf8_one_keeps_both_backtraces
    begin
      begin
        raise "binary \xFF\xC3".b
      rescue StandardError => error
        raise "\u00e9: #{error.class}"
      end
    rescue StandardError => error
      text = described(error)
    end
    cause = /caused by RuntimeError: binary \\xFF\\xC3\n.*errors_test/m
    assert_match(/\ARuntimeError: é: RuntimeError\n.*errors_test.*\n#{cause}/m, text)
  end

  def test_a_message_of_megabytes_leaves_room_for_the_backtrace
    text = described(raised(message: "x" * 5_000_000))
    assert_operator text.bytesize, :<, 20_000
    assert_includes text, "... (4991808 more bytes)\n"
  end

  def test_a_deep_backtrace_is_told_in_part
    deep = ->(left) { left.zero? ? raise("m") : deep.call(left - 1) }
    error = assert_raises(RuntimeError) { deep.call(1000) }
    assert_match(/\(\d+ more lines\)\z/, described(error))
    assert_operator Highball.describe(error).lines.size, :<, 300
  end

  def test_what_raises_in_an_exception_raises_nowhere_else
    failing = {
      "raises" => -> { raise "no" },
      "raises what is no StandardError" => -> { raise NotImplementedError },
      "has no memory" => -> { raise NoMemoryError },
      "exits" => -> { exit },
      "throws" => -> { throw :nothing },
      "recurses" => -> { define_singleton_method(:deep) { deep } and deep }
    }
    failing.each do |what, block|
      assert_includes described(raised { define_method(:message, &block) }), "(its message raises", what
      %i[cause to_s detailed_message is_a? class respond_to?].each do |method|
        described(raised { define_method(method) { |*| block.call } })
      end
      # Ruby asks it itself, and keeps none for such an exception.
      valid(raised { define_method(:backtrace, &block) })
      described(raised { define_singleton_method(:name, &block) })
    end
  end

  def test_what_an_exception_returns_may_be_anything
    object = BasicObject.new
    [nil, 5, :symbol, object, [object], ["\xFF".b, "\u00e9", nil], Class.new(String).new("x")].each do |value|
      %i[message to_s backtrace cause].each { |method| valid(raised { define_method(method) { value } }) }
    end
  end

  def test_causes_in_a_circle_end
    error = raised { define_method(:cause) { self } }
    assert_equal 9, described(error).scan("caused by").size
  end

  def test_no_exception_ends_its_thread_or_loses_its_backtrace
    [
      lambda do
        raise "\u00e9 #{"x".b}"
      rescue StandardError
        raise "\xFF".b
      end,
      -> { raise Class.new(StandardError) { def message = raise(NotImplementedError) } },
      -> { raise Class.new(StandardError) { def is_a?(*) = raise("no") } },
      -> { raise Class.new(StandardError) { def cause = throw(:nothing) } }
    ].each do |failing|
      answer = request(->(_) { failing.call })
      assert_equal [:error], answer.kinds
      assert_match(/errors_test\.rb:\d+/, answer.error)
    end
  end

  private

  # As `described`, where there may be no backtrace.
  def valid(error)
    assert Highball.describe(error).valid_encoding?
  end
end
