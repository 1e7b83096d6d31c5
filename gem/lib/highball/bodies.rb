# frozen_string_literal: true

require_relative "errors"

module Highball
  # Bodies of requests that lie in files of the front, for a worker of another user than the front's. Such a worker
  # cannot open them by their paths: it asks the front, which sends the open file. It reads no body.
  class Bodies
    # How long a thread waits for the answer, in seconds.
    TIMEOUT = 30

    # For so many threads.
    def initialize(threads)
      @lock = Mutex.new
      @answered = ConditionVariable.new
      # What each thread waits for, by its number: a sequence number, then its answer.
      @wanted = Array.new(threads)
      @answers = Array.new(threads)
    end

    # Opens the body of the request that this worker thread holds.
    def open(worker_thread)
      number = worker_thread.number
      @lock.synchronize do
        # Under the lock: the answer must not come before it is expected.
        @wanted[number] = worker_thread.ask_for_body
        wait(number)
      end
    ensure
      @wanted[number] = @answers[number] = nil
    end

    # Takes the front's answer to a thread that still waits for it.
    def answer(number, sequence, descriptor)
      file = File.for_fd(descriptor, "rb") if descriptor
      @lock.synchronize do
        break file&.close unless @wanted[number] == sequence

        @answers[number] = file || :none
        @answered.broadcast
      end
    end

    private

    def wait(number)
      deadline = now + TIMEOUT
      until (answer = @answers[number])
        left = deadline - now
        raise BodyMissing, "the server has not sent the request's body within #{TIMEOUT} seconds" unless left.positive?

        @answered.wait(@lock, left)
      end
      raise BodyMissing, "the server could not open the request's body" if answer == :none

      answer
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
