# frozen_string_literal: true

module Highball
  # `rack.input` of a request without a body: always at its end. One object serves all threads, because
  # it has no state; it answers what a StringIO over an empty binary string would.
  class EmptyInput
    # Nothing is left to read.
    def gets(*)
      nil
    end
    alias getc gets
    alias getbyte gets
    alias ungetc gets
    alias ungetbyte gets

    # IO#read: an empty string, or nil where a positive length is asked for.
    def read(length = nil, buffer = nil)
      raise ArgumentError, "negative length #{length} given" if length&.negative?

      buffer&.clear
      length.nil? || length.zero? ? buffer || String.new : nil
    end

    # IO#readpartial and its kin raise at the end.
    def readpartial(*)
      raise EOFError, "end of file reached"
    end
    alias sysread readpartial
    alias readline readpartial
    alias readchar readpartial
    alias readbyte readpartial

    # As `read`; with `exception: false` nil, as StringIO has it.
    def read_nonblock(_length, buffer = nil, exception: true)
      buffer&.clear
      exception ? readpartial : nil
    end

    def each(*arguments)
      block_given? ? self : enum_for(:each, *arguments)
    end
    alias each_line each
    alias each_byte each
    alias each_char each

    def readlines(*)
      []
    end

    def rewind
      0
    end
    alias pos rewind
    alias tell rewind
    alias size rewind
    alias length rewind
    alias lineno rewind

    def seek(*)
      0
    end

    def string
      String.new
    end

    def eof?
      true
    end
    alias eof eof?

    def close(*)
      nil
    end
    alias close_read close
    alias close_write close
    alias fileno close
    alias pid close

    def closed?
      false
    end
    alias tty? closed?
    alias isatty closed?

    def sync
      true
    end
    alias binmode? sync

    def binmode
      self
    end
    alias flush binmode

    def set_encoding(*)
      self
    end

    def external_encoding
      Encoding::BINARY
    end

    def internal_encoding
      nil
    end
  end
end
