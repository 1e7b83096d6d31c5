# frozen_string_literal: true

module Highball
  # The stream that a streaming body is called with (Rack 3 SPEC, "Streaming Body"). What is written goes
  # out at once; it is never buffered here.
  #
  # It ends when the body's `call` returns: a thread that holds on to it gets IOError from then on. An
  # application that wants the connection for longer takes it over with `rack.hijack`.
  class Stream
    # `claim` is that of the response, so that no write reaches another one.
    def initialize(worker_thread, claim, input)
      @worker_thread = worker_thread
      @claim = claim
      @input = input
      @readable = true
      @writable = true
    end

    # IO#read on the request's body.
    def read(length = nil, buffer = nil)
      raise IOError, "not opened for reading" unless @readable

      buffer ? @input.read(length, buffer) : @input.read(length)
    end

    # IO#write: the number of bytes. Waits while the response's buffer is full.
    def write(*chunks)
      raise IOError, "not opened for writing" unless @writable

      chunks.sum do |chunk|
        chunk = chunk.to_s
        @worker_thread.chunk(@claim, chunk)
        chunk.bytesize
      end
    end

    # IO#<<
    def <<(chunk)
      write(chunk)
      self
    end

    # Nothing to do: each write goes out at once.
    def flush
      raise IOError, "closed stream" if closed?

      self
    end

    def close_read
      @readable = false
      nil
    end

    def close_write
      @writable = false
      nil
    end

    # Ends both directions; as often as one likes. The error is for those who close with one.
    def close(_error = nil)
      close_read
      close_write
    end

    def closed?
      !@readable && !@writable
    end
  end
end
