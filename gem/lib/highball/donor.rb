# frozen_string_literal: true

require "socket"
require_relative "fork_safety"
require_relative "forker"
require_relative "heap"
require_relative "known_libraries"
require_relative "metrics"
require_relative "public_folder"
require_relative "purges"
require_relative "socket_files"

module Highball
  # Has a worker that was told to leave fork a new template first: a process with everything that requests have made
  # this one load, compile and cache, which the next workers then share. It tells nobody to leave.
  #
  # It forks from the main thread, when the threads that run requests have ended. The template runs in that thread.
  class Donor
    # `socket` is the number of the descriptor of the new template's control socket, `control` that of this worker's.
    def initialize(socket:, control:, number:, app:, hooks:, start:)
      @socket = socket
      @control = control
      @number = number
      @app = app
      @hooks = hooks
      @start = start
    end

    # Answers the supervisor; `own_threads` are those of the server itself. Returns whether #run is to follow.
    def agree(own_threads)
      obstacles = KnownLibraries.refork_obstacles
      return decline(obstacles.join("; ")) unless obstacles.empty?

      Native.donor(@socket, ForkSafety.lost_threads(own_threads))
      true
    end

    # Forks the template. It outlives this process.
    def run
      # Nobody waits for it any more.
      return close if Native.hung_up?(@socket)

      @hooks.run(:before_fork) { |error| Native.report("before_fork failed: #{Highball.describe(error)}") }
      Native.refuse_children
      pid = fork_template
      pidfd = IO.for_fd(Native.pidfd(pid))
      Native.forked(@socket, @number, pid, pidfd.fileno)
      close
    rescue SignalException
      raise
    rescue Exception => error # rubocop:disable Lint/RescueException -- a hook may call exit, the system refuse
      raise if Native.child?

      decline(Highball.describe(error))
    end

    # Lets go of the new template's control socket. No template is forked after that.
    def close
      IO.for_fd(@socket).close
    end

    private

    def fork_template
      Native.fork_is_worker(true)
      fork { be_template }
    ensure
      Native.fork_is_worker(false)
    end

    def decline(reason)
      Native.boot_failed(@socket, "Highball::Donor", reason, [])
      close
      false
    end

    # What the forked process does until its end.
    def be_template
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      own = let_go_of_worker
      handle_signals
      # Without compaction: objects of gems in C that requests have made would be moved for a small gain.
      Heap.prepare(compact: false, roomy: false)
      forker = Forker.new(control: @template_control, own:, start: @start, app: @app, hooks: @hooks)
      report(Process.clock_gettime(Process::CLOCK_MONOTONIC) - began)
      leave(forker.run)
    rescue Exception => error # rubocop:disable Lint/RescueException -- whatever it is, this process is no worker
      raise if Native.child?

      warn("highball: the template forked from worker #{@number} ends: #{Highball.describe(error)}")
      exit!(1)
    end

    # Returns the descriptors that belong to the template alone.
    def let_go_of_worker
      memory, doorbell = Native.become_template
      IO.for_fd(@control).close
      @template_control = Socket.for_fd(@socket)
      @template_control.autoclose = false
      own = [@socket, memory, doorbell]
      Native.close_in_children(own)
      Highball.metrics.enter_template
      Purges.stop
      Process.setproctitle("highball: template, generation #{@start.generation}, #{@start.app}")
      own
    end

    # As in a template that has loaded the application.
    def handle_signals
      trap("TERM") { raise SignalException, "TERM" if Native.child? }
      Worker.ignore_terminal_signals(@start.terminal)
    end

    def report(seconds)
      Native.booted(@socket, RUBY_VERSION, ::Rack.release, seconds, [], [], [], PublicFolder.of(@app), [])
    end

    def leave(ending)
      if ending == :front_gone && SocketFiles.wait_for_death_of(@start.front)
        SocketFiles.remove_dead(@start.unix_sockets)
      end
      exit!(0)
    end
  end
end
