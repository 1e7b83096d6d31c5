# frozen_string_literal: true

require "socket"
require_relative "metrics"
require_relative "native"

module Highball
  # Forks workers from the template when the supervisor asks for one, and reports their ends. It loads nothing.
  class Forker
    # A worker that was forked here and has not been reaped.
    Child = Struct.new(:worker, :pid)

    # `own` are the file descriptors of the template that its workers must not keep open.
    def initialize(control:, own:, start:, app:, hooks:)
      @control = control
      @own = own
      @start = start
      @app = app
      @hooks = hooks
      @children = {}
    end

    # Forks workers until the supervisor says exit. Returns how it ended: `:exit` or `:front_gone`.
    def run
      tell_counts
      loop do
        ready, = IO.select([@control, *@children.keys])
        ready.each { |io| reap(io) if @children.key?(io) }
        next unless ready.include?(@control)

        kind, number, socket = Native.receive(@control.fileno)
        case kind
        when :fork then fork_worker(number, socket)
        when :exit
          tell_counts
          return :exit
        else
          # A worker that runs notices the front's end itself; a stopped one (SIGSTOP) does not.
          @children.each_key { |pidfd| Native.kill(pidfd.fileno) }
          return :front_gone
        end
      end
    end

    private

    # A pidfd, not a signal, reports a child's end: the application may handle SIGCHLD itself.
    def reap(pidfd)
      child = @children.delete(pidfd)
      pidfd.close
      _, status = Process.wait2(child.pid)
      Native.exited(@control.fileno, child.worker, child.pid, describe(status))
    rescue Errno::ECHILD
      # The application ignores SIGCHLD, so the kernel has reaped the child.
      Native.exited(@control.fileno, child.worker, child.pid, "unknown")
    end

    def describe(status)
      return "exit #{status.exitstatus}" unless status.signaled?

      "signal #{status.termsig} (#{Signal.signame(status.termsig)})"
    end

    # Tells what the application has counted in this process.
    def tell_counts
      Highball.metrics.tell { |message| Native.count_in_template(@control.fileno, message) }
    end

    def fork_worker(number, socket)
      Native.close_in_children([*@own, *socket])
      @hooks.run(:before_fork) { |error| warn("highball: before_fork failed: #{Highball.describe(error)}") }
      Native.refuse_children
      pid = start_worker(number, socket)
      pidfd = IO.for_fd(Native.pidfd(pid))
      @children[pidfd] = Child.new(number, pid)
      Native.forked(@control.fileno, number, pid, pidfd.fileno)
    rescue SignalException
      raise
    rescue Exception => error # rubocop:disable Lint/RescueException -- a hook may call exit, the system refuse
      raise if Native.child?

      @children.delete(pidfd)
      end_child(pid) if pid
      Native.not_forked(@control.fileno, number, Highball.describe(error))
    ensure
      Native.close_in_children(@own)
      IO.for_fd(socket).close if socket && !Native.child?
    end

    def start_worker(number, socket)
      tell_counts
      Native.fork_is_worker(true)
      fork do
        close_template_files
        Worker.new(
          app: @app, hooks: @hooks, number:, control: socket, start: @start
        ).run
      end
    ensure
      Native.fork_is_worker(false)
    end

    # Kills a child that could not be reported.
    def end_child(pid)
      Process.kill("KILL", pid)
      Process.wait(pid)
    rescue Errno::ESRCH, Errno::ECHILD
      # The application ignores SIGCHLD, so the kernel has reaped it.
      nil
    end

    # Closes what a worker must not keep open: while it did, the supervisor would not see the template's end.
    def close_template_files
      IO.for_fd(@control.fileno).close
      @children.each_key(&:close)
      @children.clear
      Process.setproctitle("highball: worker, generation #{@start.generation}, #{@start.app}")
    end
  end
end
