# frozen_string_literal: true

module Highball
  # Samples where the threads of this worker are, in a thread that exists only meanwhile, and merges the stacks into a
  # tree. No signal is used, and no thread is stopped: a sample is taken when Ruby hands its lock over.
  class Profiler
    # Samples a second, where Ruby hands its lock over as often.
    RATE = 99
    # The most frames of a stack, innermost first.
    MAX_FRAMES = 400
    # The most nodes of the tree; what comes beyond is counted, and its stack left out.
    MAX_NODES = 20_000
    # The innermost frame of a thread that waits for a request.
    IDLE = /runner\.rb:\d+:in [`'](?:Highball::WorkerThread#)?take'\z/
    # Bytes of a frame's text.
    MAX_FRAME_BYTES = 512
    private_constant :IDLE

    # A frame below others: its number, its own samples, and what it called by its text.
    Node = Struct.new(:number, :own, :children)

    # `threads` are those that run requests.
    def initialize(threads)
      @threads = threads
      @root = Node.new(0, 0, {})
      @frames = {}
      @nodes = []
      @idle = @dropped = 0
    end

    # Samples for so many milliseconds: the report, as text.
    def run(milliseconds)
      started = last = now
      cpu = cpu_time
      deadline = started + (milliseconds / 1000.0)
      while (wait = [deadline - now, 1.0 / RATE].min).positive?
        sleep(wait)
        time = now
        # What passed while another thread held Ruby's lock counts as well.
        sample([((time - last) * RATE).round, 1].max)
        last = time
      end
      report(now - started, cpu_time - cpu)
    end

    # Takes a sample of each thread, which stands for so many.
    def sample(times)
      @threads.each do |thread|
        lines = thread&.backtrace(0, MAX_FRAMES)
        next if lines.nil? || lines.empty?

        IDLE.match?(lines.first) ? @idle += times : add(lines, times)
      end
    end

    # Lines that crates/profiles reads: figures, frames, nodes.
    def report(wall, cpu)
      lines = ["profile #{@idle} #{@dropped} #{(wall * 1e6).round} #{(cpu * 1e6).round}"]
      @frames.each_key { |frame| lines << "f #{Inspection.line(frame, MAX_FRAME_BYTES)}" }
      @nodes.each { |parent, frame, node| lines << "n #{parent} #{frame} #{node.own}" }
      lines.join("\n")
    end

    private

    def add(lines, times)
      node = @root
      lines.reverse_each do |line|
        below = node.children[line] || new_node(node, line)
        break @dropped += times unless below

        node = below
      end
      node.own += times unless node.equal?(@root)
    end

    def new_node(parent, line)
      return if @nodes.size >= MAX_NODES

      node = parent.children[line] = Node.new(@nodes.size + 1, 0, {})
      frame = @frames[line] ||= @frames.size
      @nodes << [parent.number, frame, node]
      node
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def cpu_time
      Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    end
  end
end
