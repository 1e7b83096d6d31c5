# frozen_string_literal: true

module Highball
  # The parts of an exception as text for the log: valid UTF-8, of bounded length. It runs where an exception has just
  # been rescued, with methods and texts that are the application's or even a client's: whatever they are or do, it
  # never raises, and the backtrace is kept.
  module Description
    # Bytes of a message; the rest of a longer one is left out, so that the backtrace has room.
    MESSAGE_BYTES = 8192

    # Bytes of a line of a backtrace.
    LINE_BYTES = 1024

    # Lines of a backtrace, innermost first; the others are counted.
    LINES = 200

    # What no exception can override.
    CLASS = ::Kernel.instance_method(:class)
    CLASS_NAME = ::Module.instance_method(:to_s)
    BACKTRACE = ::Exception.instance_method(:backtrace)

    # Encodings of text whose encoding was not declared.
    UNDECLARED = [::Encoding::BINARY, ::Encoding::US_ASCII].freeze
    private_constant :CLASS, :CLASS_NAME, :BACKTRACE, :UNDECLARED

    class << self
      # The name of its class.
      def class_name(error)
        text(CLASS_NAME.bind_call(CLASS.bind_call(error)), LINE_BYTES)
      end

      # The names of its class and of all above it.
      def ancestors(error)
        CLASS.bind_call(error).ancestors.map { |one| CLASS_NAME.bind_call(one) }
      end

      # Its message; where its message raises, a text that says so.
      def message(error)
        attempt_or(->(failure) { "(its message raises #{class_name(failure)})" }) do
          text(error.message, MESSAGE_BYTES)
        end
      end

      # What Ruby itself prints of it: the message, with what is suggested (from Ruby 3.2 on), and without the name of
      # the class, which Ruby puts behind the first line.
      def detailed_message(error)
        attempt_or(->(_) { message(error) }) do
          next message(error) unless error.respond_to?(:detailed_message)

          text(error.detailed_message(highlight: false), MESSAGE_BYTES).sub(" (#{class_name(error)})", "")
        end
      end

      # Its backtrace, innermost line first.
      def backtrace(error)
        lines = attempt(nil) { error.backtrace }
        lines = BACKTRACE.bind_call(error) unless ::Array === lines
        lines = [*lines]
        kept = lines.first(LINES).map { |line| attempt("(a line that is no text)") { text(line, LINE_BYTES) } }
        lines.size > LINES ? kept << "(#{lines.size - LINES} more lines)" : kept
      end

      # The exception that led to it, or nil.
      def cause(error)
        attempt(nil) { error.cause }
      end

      # A copy of a string as valid UTF-8. Bytes that are no text of its encoding become \xNN.
      def utf8(value)
        value = ::String.new(value)
        # Most of what is called binary is UTF-8.
        value.force_encoding(::Encoding::UTF_8) if UNDECLARED.include?(value.encoding)
        unless value.encoding == ::Encoding::UTF_8
          value = attempt(value.b) { value.encode(::Encoding::UTF_8, invalid: :replace, undef: :replace) }
        end
        escaped(value.force_encoding(::Encoding::UTF_8))
      end

      private

      # A text as valid UTF-8 of at most so many bytes.
      def text(value, limit)
        # Interpolation, for `to_s` may return another thing than a string.
        value = ::String.new(::String === value ? value : "#{value}") # rubocop:disable Style/RedundantInterpolation
        left_out = value.bytesize - limit
        value = value.byteslice(0, limit) if left_out.positive?
        value = utf8(value)
        left_out.positive? ? "#{value}... (#{left_out} more bytes)" : value
      end

      def escaped(value)
        value.scrub { |bytes| bytes.unpack("C*").map { |byte| format("\\x%02X", byte) }.join }
      end

      def attempt(otherwise, &block)
        attempt_or(->(_) { otherwise }, &block)
      end

      # What the block returns; where it raises, what is made of that. A throw without a catch raises too.
      def attempt_or(otherwise)
        yield
      rescue ::Exception => error # rubocop:disable Lint/RescueException -- nothing may leave, whatever it is
        otherwise.call(error)
      end
    end
  end
end
