# frozen_string_literal: true

module Highball
  # Samples where the threads of this worker are, in a thread that exists only meanwhile. Mode "cpu": for each second of
  # CPU time of a thread 99 samples, which the extension takes in that thread at Ruby's safe points; no signal is used.
  # Mode "wall": 99 times a second where each thread is, also one that waits, where Ruby hands its lock over as often.
  class Profiler
    # Samples a second.
    RATE = 99
    # The most frames of a stack, innermost first.
    MAX_FRAMES = 400
    # The innermost frame of a thread that waits for a request.
    IDLE = /runner\.rb:\d+:in [`'](?:Highball::WorkerThread#)?take'\z/
    # Bytes of a frame's text.
    MAX_FRAME_BYTES = 512
    # Seconds after which mode "cpu" looks for threads that compute without Ruby's lock, and for new ones.
    CHECK_INTERVAL = 2.0 / RATE
    # Whether a backtrace names methods with their classes, and not the files of Ruby's own library: from Ruby 3.4 on.
    QUALIFIED = RUBY_VERSION.split(".").first(2).map(&:to_i).then { |version| (version <=> [3, 4]) >= 0 }
    # What a backtrace says more of a block in a method than the extension sees of it.
    BLOCK = /(?<=[`'])(?:(?:block|rescue|ensure)(?: \(\d+ levels\))? in )+(?!<)/
    private_constant :BLOCK, :IDLE, :CHECK_INTERVAL, :QUALIFIED

    # `threads` are those that run requests, by their numbers; one may be replaced meanwhile.
    def initialize(threads, mode)
      @threads = threads
      @mode = mode
      @sampler = Sampler.new(threads.size)
      @idle = 0
    end

    # Samples for so many milliseconds: the report, as text.
    def run(milliseconds)
      started = now
      cpu = cpu_time
      deadline = started + (milliseconds / 1000.0)
      @mode == "wall" ? sample_wall_time(deadline) : sample_cpu_time(deadline)
      report(now - started, cpu_time - cpu)
    end

    # Lines that crates/profiles reads: figures, frames, nodes.
    def report(wall, cpu)
      dropped, taken, used_us, cpu_us = @sampler.figures
      cpu_us += (cpu * 1e6).round
      frames = {}
      nodes = tree.map do |parent, frame, own|
        number = frames[frame] ||= frames.size
        "n #{parent} #{number} #{own}"
      end
      ["profile #{@idle} #{dropped} #{(wall * 1e6).round} #{cpu_us} #{used_us} #{taken}",
       *frames.keys.map { |frame| "f #{frame}" }, *nodes].join("\n")
    end

    private

    def sample_wall_time(deadline)
      last = now
      while (wait = [deadline - now, 1.0 / RATE].min).positive?
        sleep(wait)
        time = now
        # What passed while another thread held Ruby's lock counts as well.
        times = [((time - last) * RATE).round, 1].max
        last = time
        @threads.each { |thread| add(thread, times) }
      end
    end

    def sample_cpu_time(deadline)
      watched = []
      @sampler.start
      while (wait = [deadline - now, CHECK_INTERVAL].min).positive?
        @threads.each_with_index do |thread, number|
          unless thread.equal?(watched[number])
            watched[number] = thread
            @sampler.watch(number, thread, native_id(thread))
          end
          times = @sampler.overdue(number)
          add_computing(thread, times) if times.positive?
        end
        sleep(wait)
      end
    ensure
      @sampler.stop
    end

    # A thread's number for the kernel, 0 for none. Ruby 3.1 has the one of before the fork for the main thread.
    def native_id(thread)
      thread == Thread.main ? Process.pid : thread&.native_thread_id || 0
    end

    # Adds where a thread is now, or that it waits for a request.
    def add(thread, times)
      lines = thread&.backtrace(0, MAX_FRAMES)
      return if lines.nil? || lines.empty?

      IDLE.match?(lines.first) ? @idle += times : @sampler.add(lines, times)
    end

    # Adds where a thread is that computes, as the extension would name it.
    def add_computing(thread, times)
      lines = thread&.backtrace(0, MAX_FRAMES) || []
      @sampler.add(lines.map { |line| line.sub(BLOCK, "") }, times)
    end

    # The tree's nodes, callers first: number of the caller, frame as a backtrace has it, own samples.
    def tree
      places = [nil]
      nodes = []
      while (node = @sampler.node(nodes.size + 1))
        parent, own, *frame = node
        text, places[nodes.size + 1] = frame.one? ? frame : described(frame, places[parent])
        nodes << [parent, Inspection.line(text, MAX_FRAME_BYTES), own]
      end
      nodes
    end

    # A frame's text, and its place. A method that is written in C is where it is called, as in a backtrace.
    def described((label, qualified, path, line), caller_place)
      place = path && !(QUALIFIED && path.start_with?("<internal:")) ? "#{path}:#{line}" : caller_place
      # A class without a name is not in a backtrace either.
      label = qualified if QUALIFIED && qualified && !qualified.include?("#<")
      ["#{place || "<unknown>:0"}:in #{QUALIFIED ? "'" : "`"}#{label}'", place]
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def cpu_time
      Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    end
  end
end
