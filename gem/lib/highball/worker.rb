# frozen_string_literal: true

require_relative "bodies"
require_relative "connection"
require_relative "debugger"
require_relative "donor"
require_relative "empty_input"
require_relative "inspection"
require_relative "major_collections"
require_relative "metrics"
require_relative "out_of_band"
require_relative "purges"
require_relative "rack_release"
require_relative "runner"

module Highball
  # A process forked from the template: runs requests in its threads until it is told to stop.
  #
  # It ends at once when its control socket does, that is when the front dies: a native thread sees to
  # it, which needs nothing from Ruby.
  class Worker
    # The most lines of a backtrace that are reported, innermost first.
    BACKTRACE_LINES = 400

    # `start` is what the template was told, see Template::Start.
    def initialize(app:, hooks:, number:, control:, start:)
      @app = app
      @hooks = hooks
      @start = start
      @number = number
      @threads = start.threads
      @control = control
      @terminal = start.terminal
      @worker_threads = []
      @runners = Array.new(@threads)
      @inspection = Inspection.new(@runners)
      @major_collections = MajorCollections.new if start.out_of_band_gc && MajorCollections.supported?
      @out_of_band = work_between_requests(start.out_of_band)
      @error_page = ErrorPage.new(start.app) if start.error_page
      @bodies = Bodies.new(start.threads) if start.own_user
      @exceptions = ExceptionReporter::Rules.new(start.app, *start.exceptions) if start.exceptions
    end

    # Has the signals of a terminal do nothing in this process: they are for the front, or for a debugger that is open.
    # Programs that this process starts are ended by them as usual, which they would not be with "IGNORE". Without a
    # terminal that is INT alone, which people send to process groups.
    def self.ignore_terminal_signals(terminal)
      trap("INT") { Native.child? ? raise(Interrupt, "") : Debugger.interrupt }
      return unless terminal

      %w[HUP QUIT].each { |name| trap(name) { raise SignalException, name if Native.child? } }
    end

    # Runs the worker's life. Returns when the process should exit.
    def run
      Native.own_arena
      Native.enter(@number, @control)
      Highball.metrics.enter_worker
      handle_signals
      @major_collections&.enter
      Debugger.enter_worker(only_waits: @threads > 1)
      run_hooks(:after_fork)
      @worker_threads = Array.new(@threads) { |index| WorkerThread.new(index) }
      @purges = Purges.start
      ExceptionReporter::RailsSubscriber.subscribe if @exceptions
      read_messages
      Native.ready
      # One thread needs no other: this one runs the requests.
      @threads == 1 ? run_thread(@worker_threads.first) : run_threads
      Connection.wait_until_closed
      @donor&.run
      run_hooks(:before_worker_exit)
      Highball.metrics.tell { |message| Native.count(message) }
    end

    private

    # TERM asks this worker alone to finish; the supervisor then replaces it.
    def handle_signals
      trap("TERM") { Native.child? ? raise(SignalException, "TERM") : Native.stop }
      Worker.ignore_terminal_signals(@terminal)
    end

    def run_hooks(name)
      @hooks.run(name, @number) do |error|
        Native.report("#{name} failed: #{Highball.describe(error)}")
      end
    end

    def run_thread(worker_thread)
      Native.keep_native_thread
      Native.join_arena
      @runners[worker_thread.number] = Thread.current
      exceptions = ExceptionReporter.new(worker_thread, @exceptions) if @exceptions
      Runner.new(@app, worker_thread, @out_of_band, @error_page, exceptions, bodies: @bodies).run
    end

    # Takes the supervisor's messages. Waits for them without Ruby's lock.
    def read_messages
      @messages = Thread.new do
        Native.join_arena
        while (message = Native.next_message(@start.release_memory_after))
          begin
            act_on(*message)
          rescue StandardError => error
            # The next message needs this thread.
            Native.report("a message of the server failed: #{Highball.describe(error)}")
          end
        end
      end
      @messages.name = "highball messages"
    end

    # Says where a thread is whose request is slow or late, answers an operator, hands the answer of a purge to the
    # thread that waits for it, prepares to fork a template, or gives memory back.
    def act_on(kind, *rest)
      case kind
      when :backtrace
        index, slot, sequence = rest
        Native.backtrace(slot, sequence, backtrace(index, slot, sequence))
      when :purged
        @purges.answer(*rest)
      when :body
        @bodies.answer(*rest)
      when :inspect
        @inspection.answer(*rest)
      when :refork
        agree_to_fork(*rest)
      when :idle
        release_memory
      end
    end

    # The template is forked when this worker leaves.
    def agree_to_fork(socket)
      # No descriptor was left for it; the supervisor sees that nobody has its end.
      return unless socket

      donor = Donor.new(socket:, control: @control, number: @number, app: @app, hooks: @hooks, start: @start)
      own_threads = [@messages, Highball.metrics.sender, *@runners]
      return unless donor.agree(own_threads)

      # Asked before, and then it did not come to it.
      @donor&.close
      @donor = donor
    end

    # This worker has the turn for work between requests.
    def release_memory
      @major_collections ? @major_collections.collect : GC.start
      Native.release_memory
    ensure
      Native.end_idle_work
    end

    # Where the thread is, if it runs this very request.
    def backtrace(index, slot, sequence)
      worker_thread = @worker_threads[index]
      return [] unless worker_thread&.holds?(slot, sequence)

      lines = @runners[index]&.backtrace(0, BACKTRACE_LINES)
      # Otherwise it has gone on to the next one meanwhile.
      worker_thread.holds?(slot, sequence) && lines ? lines : []
    end

    # What a worker does between requests; nil for nothing.
    def work_between_requests(interval)
      OutOfBand.new(interval, @major_collections) { collect } if interval || @major_collections
    end

    # What it does once in so many of them.
    def collect
      GC.start
      run_hooks(:out_of_band)
    end

    # A thread that ends otherwise than by finishing (Thread#kill) is started again: its requests would never run.
    def run_threads
      ended = Queue.new
      @worker_threads.each { |worker_thread| start_thread(worker_thread, ended) }
      running = @worker_threads.size
      while running.positive?
        worker_thread, finished = wait_for(ended)
        finished ? running -= 1 : start_thread(worker_thread, ended)
      end
    end

    # What comes next in the queue. A debugger's own handler of INT raises in this thread, where Ruby runs all handlers:
    # what it raises is for the thread that runs the debugger.
    def wait_for(queue)
      queue.pop
    rescue Exception => error # rubocop:disable Lint/RescueException -- IRB::Abort is one
      raise if Native.child? || !Debugger.forward(error)

      retry
    end

    def start_thread(worker_thread, ended)
      finished = false
      thread = Thread.new do
        run_thread(worker_thread)
        finished = true
      ensure
        # In a process that the application forked, no other code would report what it ends with.
        Thread.current.report_on_exception = true if Native.child?
        ended << [worker_thread, finished]
      end
      thread.name = "highball #{worker_thread.number}"
      thread.report_on_exception = false
    end
  end
end
