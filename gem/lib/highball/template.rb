# frozen_string_literal: true

require "socket"
require_relative "version"
require_relative "native"
require_relative "application"
require_relative "fork_safety"
require_relative "hooks"
require_relative "warm_up"

module Highball
  # The process that loads the application once and then only forks workers from it. It runs no client's request.
  #
  # The main thread loads, and another one forks. Where another generation serves meanwhile the main thread steps back
  # behind it, from where no thread comes back without privileges, nor does what it forks.
  #
  # It obeys the supervisor over its control socket, which the supervisor left as file descriptor 0, and
  # ends when that ends. Messages are those of crates/exchange/src/control/messages.rs.
  class Template
    # What the supervisor says at the start; see `Start` in messages.rs.
    Start = Struct.new(
      :app, :config_ru, :environment, :hooks, :threads, :compact, :behind, :warm_up,
      :early_hints, :out_of_band, :generation,
      :unix_sockets,
      keyword_init: true
    )

    # A worker that was forked here and has not been reaped.
    Child = Struct.new(:worker, :pid)

    # Collections before the first fork: objects that survive three are old, and old ones are not touched
    # (and so not copied) by the workers' young collections.
    COLLECTIONS = 3

    # How long to wait for a front that is being killed to be gone altogether, in seconds.
    FRONT_GONE_TIMEOUT = 5

    # Between two looks whether it is, in seconds.
    LOOK = 0.01

    # Runs the template of this process, and ends it.
    def self.run
      # What the application prints shows when it prints it, also in a file or a pipe.
      $stdout.sync = $stderr.sync = true
      control = take_control_socket
      begin
        Native.load
      rescue LoadError => error
        refuse(control, error)
      end
      new(control).run
    end

    # Moves the control socket away from file descriptor 0, so that neither the application nor what it
    # starts reads from it.
    def self.take_control_socket
      # Ruby's copies are closed on exec.
      copy = $stdin.dup
      copy.autoclose = false
      control = Socket.for_fd(copy.fileno)
      # In a process that the application forks, the number belongs to something else.
      control.autoclose = false
      $stdin.reopen(File::NULL)
      control
    end

    # Says without the extension why there is no template.
    def self.refuse(control, error)
      # Only here: an application may want another version of this gem.
      require "json"
      message = { BootFailed: { class: error.class.name, message: error.message, backtrace: [] } }
      control.send(JSON.generate(message), 0)
      exit!(1)
    end
    private_class_method :take_control_socket, :refuse

    def initialize(control)
      @control = control
      @front = Process.ppid
      @children = {}
      @leaving = false
    end

    # Loads the application, then forks workers until it is told to leave or the front dies.
    def run
      trap("TERM") { call_off }
      Native.end_with_parent
      return leave unless start

      booted = Queue.new
      @forker = forker(booted)
      Native.step_back if @start.behind
      boot
      # The end of the control socket decides, not a signal: a front that dies must be cleaned up after.
      trap("TERM") { raise SignalException, "TERM" if child? }
      # Not "IGNORE", which programs that are started would keep.
      trap("INT") { raise Interrupt, "" if child? }
      booted << true
      @forker.join
    rescue SignalException
      raise if child?

      leave
    end

    private

    def start
      kind, memory, doorbell, fields = Native.receive(@control.fileno)
      return false unless kind == :start

      @start = Start.new(**fields)
      Native.attach(memory, doorbell)
      @own = [@control.fileno, memory, doorbell]
      Native.let_go_in_children(@own)
      true
    end

    # The thread that forks once there is something to fork. It keeps the rank that this one has now.
    def forker(booted)
      thread = Thread.new do
        booted.pop
        obey
      end
      thread.name = "highball forker"
      thread.report_on_exception = false
      thread
    end

    # Loads everything and reports. Does not return where the application cannot be loaded.
    def boot
      Process.setproctitle("highball: template, generation #{@start.generation}, #{@start.app}")
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      @hooks = Hooks.load(@start.hooks)
      @app = Application.load(@start)
      load_worker
      WarmUp.run(@app, @start.warm_up) { |fault| warn("highball: #{fault}") } if @start.warm_up
      refuse_children
      shrink_heap
      seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
      Native.booted(
        @control.fileno, RUBY_VERSION, ::Rack.release, seconds, ForkSafety.held(@own, [@forker]), ForkSafety.gems
      )
    rescue SignalException
      raise
    rescue Exception => error # rubocop:disable Lint/RescueException -- exit and abort are failures here
      raise if child?

      fail_boot(error)
    end

    # Whether the application or a hook forked this process, which came back here: it must not speak for the template.
    def child?
      Native.child?
    end

    def refuse_children
      return unless child?

      raise NotTheWorker, "this process was forked while the application was loaded, or by a hook: " \
                          "end it in the code that forks (fork { ... }, or exit)"
    end

    def fail_boot(error)
      Native.boot_failed(
        @control.fileno, Description.class_name(error), Description.detailed_message(error),
        Description.backtrace(error)
      )
      $stdout.flush
      exit!(1)
    end

    # After the application, which decides on the version of Rack.
    def load_worker
      require_relative "worker"
      Native.prepare(@front, $stderr, EmptyInput.new, Connection, @start.threads > 1, @start.early_hints)
    end

    def shrink_heap
      COLLECTIONS.times { GC.start }
      GC.compact if @start.compact
    rescue NotImplementedError
      # A machine whose Ruby cannot compact; its workers share less memory.
      nil
    end

    def obey
      loop do
        ready, = IO.select([@control, *@children.keys])
        ready.each { |io| reap(io) if @children.key?(io) }
        next unless ready.include?(@control)

        kind, number, socket = Native.receive(@control.fileno)
        case kind
        when :fork then fork_worker(number, socket)
        when :exit then return
        else
          # Those that run see the front's end themselves, one that stands still (SIGSTOP) does not.
          @children.each_key { |pidfd| Native.kill(pidfd.fileno) }
          return leave
        end
      end
    end

    # A pidfd and not a signal tells of a child's end: the application may handle SIGCHLD itself.
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

    def fork_worker(number, socket)
      Native.let_go_in_children([*@own, *socket])
      @hooks.run(:before_fork) { |error| warn("highball: before_fork failed: #{Highball.describe(error)}") }
      refuse_children
      pid = start_worker(number, socket)
      pidfd = IO.for_fd(Native.pidfd(pid))
      @children[pidfd] = Child.new(number, pid)
      Native.forked(@control.fileno, number, pid, pidfd.fileno)
    rescue SignalException
      raise
    rescue Exception => error # rubocop:disable Lint/RescueException -- a hook may call exit, the system refuse
      raise if child?

      @children.delete(pidfd)
      end_child(pid) if pid
      Native.not_forked(@control.fileno, number, Highball.describe(error))
    ensure
      Native.let_go_in_children(@own)
      IO.for_fd(socket).close if socket && !child?
    end

    def start_worker(number, socket)
      Native.fork_is_worker(true)
      fork do
        leave_template_behind
        Worker.new(
          app: @app, hooks: @hooks, number: number, threads: @start.threads, control: socket,
          out_of_band: @start.out_of_band
        ).run
      end
    ensure
      Native.fork_is_worker(false)
    end

    # Ends a child that cannot be told of.
    def end_child(pid)
      Process.kill("KILL", pid)
      Process.wait(pid)
    rescue Errno::ESRCH, Errno::ECHILD
      # The application ignores SIGCHLD, so the kernel has reaped it.
      nil
    end

    # What a worker must not hold: while it did, the supervisor would not see the template's end.
    def leave_template_behind
      IO.for_fd(@control.fileno).close
      @children.each_key(&:close)
      @children.clear
      Process.setproctitle("highball: worker, generation #{@start.generation}, #{@start.app}")
    end

    # A front with several threads that dies makes the kernel send TERM more than once.
    def call_off
      raise SignalException, "TERM" unless @leaving
    end

    # The front is gone, or was about to start this process and failed.
    def leave
      @leaving = true
      remove_dead_sockets if @start && front_gone?
      exit!(0)
    end

    # The kernel closes a dying process's files one after another; the process is gone, and its
    # listeners with it, once its children have another parent.
    def front_gone?
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + FRONT_GONE_TIMEOUT
      while Process.ppid == @front
        return false if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

        sleep(LOOK)
      end
      true
    end

    # Removes the socket files on which nobody listens. Those of a server that has taken over are kept.
    def remove_dead_sockets
      @start.unix_sockets.each do |path|
        UNIXSocket.new(path).close
      rescue Errno::ECONNREFUSED
        remove(path)
      rescue SystemCallError
        next
      end
    end

    def remove(path)
      File.unlink(path)
    rescue SystemCallError => error
      warn("highball: #{path} stays behind: #{error.message}")
    end
  end
end

Highball::Template.run if $PROGRAM_NAME == __FILE__
