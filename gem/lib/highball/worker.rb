# frozen_string_literal: true

require_relative "connection"
require_relative "empty_input"
require_relative "out_of_band"
require_relative "runner"

module Highball
  # A process forked from the template: runs requests in its threads until it is told to stop.
  #
  # It ends at once when its control socket does, that is when the front dies: a native thread sees to
  # it, which needs nothing from Ruby.
  class Worker
    def initialize(app:, hooks:, number:, threads:, control:, out_of_band: nil)
      @app = app
      @hooks = hooks
      @number = number
      @threads = threads
      @control = control
      @out_of_band = OutOfBand.new(out_of_band) { collect } if out_of_band
    end

    # Runs the worker's life. Returns when the process should exit.
    def run
      Native.enter(@number, @control)
      handle_signals
      run_hooks(:after_fork)
      seats = Array.new(@threads) { |index| Seat.new(index) }
      Native.ready
      # One thread needs no other: the main one runs the requests.
      @threads == 1 ? runner(seats.first).run : run_threads(seats)
      Connection.outlast
      run_hooks(:before_worker_exit)
    end

    private

    # TERM asks this worker alone to finish; the supervisor then replaces it. INT is for the front.
    def handle_signals
      trap("TERM") { Native.stop }
      trap("INT", "IGNORE")
    end

    def run_hooks(name)
      @hooks.run(name, @number) do |error|
        Native.report("#{name} failed: #{Highball.describe(error)}")
      end
    end

    def runner(seat)
      Runner.new(@app, seat, @out_of_band)
    end

    # What a worker does between requests.
    def collect
      GC.start
      run_hooks(:out_of_band)
    end

    # A thread that ends otherwise than by finishing (Thread#kill) is started again: its seat would be empty.
    def run_threads(seats)
      ended = Queue.new
      seats.each { |seat| start_thread(seat, ended) }
      running = seats.size
      while running.positive?
        seat, finished = ended.pop
        finished ? running -= 1 : start_thread(seat, ended)
      end
    end

    def start_thread(seat, ended)
      finished = false
      thread = Thread.new do
        runner(seat).run
        finished = true
      ensure
        ended << [seat, finished]
      end
      thread.name = "highball #{seat.thread}"
      thread.report_on_exception = false
    end
  end
end
