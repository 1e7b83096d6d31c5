# frozen_string_literal: true

require_relative "errors"

# Loaded in every process that loads the gem: it uses native code only in workers, where that is loaded.
module Highball
  # Has the response cache of this server forget responses: those to a `url` (`"/articles/1"` of every host, or
  # `"https://shop.example.com/articles/1"`), to all URLs that begin with a `prefix`, or with a `tag` (a word of the
  # fields Cache-Tag or Surrogate-Key).
  #
  # Returns of how many URLs it forgot responses; nil where there is nothing to forget: without a response cache, and
  # in every process that is no worker of Highball (console, rake, tests, other servers). Raises PurgeFailed where the
  # server has not answered.
  def self.purge(url: nil, prefix: nil, tag: nil)
    given = { url:, prefix:, tag: }.compact
    raise ArgumentError, "name one of url:, prefix: and tag:, not #{given.size} of them" unless given.size == 1

    kind, text = given.first
    text = String(text)
    unless text.bytesize.between?(1, Purges::MAX_BYTES)
      raise ArgumentError, "#{kind} has #{text.bytesize} bytes, and may have 1 to #{Purges::MAX_BYTES}"
    end

    Purges.of_this_process&.ask(kind.to_s, text)
  end

  # The requests of this worker that the response cache forget something, and the threads that wait for their answers.
  class Purges
    # The longest url, prefix or tag, in bytes.
    MAX_BYTES = 8192
    # How long a thread waits for the answer, in seconds.
    TIMEOUT = 5
    # No answer has come yet.
    NONE = Object.new.freeze
    private_constant :NONE

    class << self
      # Those of this process, if it is a worker.
      def of_this_process
        @purges if @purges && !Native.child?
      end

      # Called by a worker whose supervisor can answer from now on.
      def start
        @purges = new
      end

      # Called by a process that was forked from a worker and is none.
      def stop
        @purges = nil
      end
    end

    def initialize
      @lock = Mutex.new
      @answered = ConditionVariable.new
      @results = {}
      @last = 0
    end

    # Asks, and waits for the answer.
    def ask(kind, text)
      id = nil
      @lock.synchronize do
        id = @last = (@last + 1) & 0xffff_ffff
        @results[id] = NONE
      end
      Native.purge(id, kind, text)
      check(wait(id))
    ensure
      @lock.synchronize { @results.delete(id) } if id
    end

    # Takes the supervisor's answer to a thread that still waits for it.
    def answer(id, result)
      @lock.synchronize do
        @results[id] = result if @results.key?(id)
        @answered.broadcast
      end
    end

    private

    def wait(id)
      deadline = now + TIMEOUT
      @lock.synchronize do
        while NONE.equal?(@results[id]) && (left = deadline - now).positive?
          @answered.wait(@lock, left)
        end
        @results[id]
      end
    end

    def check(result)
      raise PurgeFailed, "the server has not answered within #{TIMEOUT} seconds" if NONE.equal?(result)
      raise PurgeFailed, "too many threads of this worker purge at once" if result == false

      result
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
