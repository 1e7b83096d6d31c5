# frozen_string_literal: true

require "socket"
require_relative "version"
require_relative "native"
require_relative "runtime"

module Highball
  # The process that loads the application once and then only forks workers from it. It runs no client's request.
  #
  # The main thread loads, and another one forks (Forker). While another generation serves, the main thread loads at low
  # priority. Without privileges no thread gets its priority back, nor does a process that it forks.
  #
  # The supervisor commands it over its control socket, which is file descriptor 0 at the start. The template ends when
  # that ends. Messages are those of crates/exchange/src/control/messages.rs.
  class Template
    # What the supervisor sends at the start; see `Start` in messages.rs.
    Start = Struct.new(
      :app, :config_ru, :environment, :hooks, :threads, :compact_heap, :roomy_heap, :merge_pages, :low_priority,
      :warm_up, :frequent_paths, :early_hints, :rails_log_to_stdout, :out_of_band, :out_of_band_gc,
      :release_memory_after, :generation, :unix_sockets, :terminal, :error_page, :measure_requests, :exceptions,
      :own_user,
      # The front's process; added here.
      :front,
      keyword_init: true
    )

    # Runs the template of this process, and ends it.
    def self.run
      runtime = Runtime.new(__FILE__, "-I", File.dirname(__dir__))
      # What the application prints is written at once, also to a file or a pipe.
      $stdout.sync = $stderr.sync = true
      control = take_control_socket
      begin
        Native.load
      rescue LoadError => error
        refuse(control, error)
      end
      load_parts
      new(control, runtime).run
    end

    # After the extension: an older Ruby, which has none, cannot even read these files.
    def self.load_parts
      require_relative "application"
      require_relative "database_pool"
      require_relative "debugger"
      require_relative "filter_parameters"
      require_relative "fork_safety"
      require_relative "forker"
      require_relative "hooks"
      require_relative "metrics"
      require_relative "native_threads"
      require_relative "public_folder"
      require_relative "rails_log"
      require_relative "socket_files"
      require_relative "warm_up"
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

    # Reports, without the extension, why the extension cannot be loaded.
    def self.refuse(control, error)
      # Only here: an application may want another version of this gem.
      require "json"
      message = { BootFailed: { class: error.class.name, message: error.message, backtrace: [] } }
      control.send(JSON.generate(message), 0)
      exit!(1)
    end
    private_class_method :take_control_socket, :load_parts, :refuse

    def initialize(control, runtime)
      @control = control
      @runtime = runtime
      @front = Process.ppid
      @leaving = false
    end

    # Loads the application, then forks workers until the supervisor says exit or the front dies.
    def run
      trap("TERM") { stop_loading }
      Native.end_with_parent
      return leave unless start

      booted = Queue.new
      @fork_thread = start_fork_thread(booted)
      Native.lower_priority if @start.low_priority
      boot
      handle_signals
      booted << Forker.new(control: @control, own: @own, start: @start, app: @app, hooks: @hooks)
      @fork_thread.join
    rescue SignalException
      raise if Native.child?

      leave
    end

    private

    def start
      kind, memory, doorbell, fields = Native.receive(@control.fileno)
      return false unless kind == :start

      @start = Start.new(**fields, front: @front)
      Native.attach(memory, doorbell)
      @own = [@control.fileno, memory, doorbell]
      Native.close_in_children(@own)
      Highball.metrics.enter_template
      true
    end

    # The thread that forks once the application is loaded. It keeps the priority that this one has now.
    def start_fork_thread(booted)
      thread = Thread.new do
        # Workers begin in a copy of this thread.
        Native.keep_native_thread
        leave if booted.pop.run == :front_gone
      end
      thread.name = "highball forker"
      thread.report_on_exception = false
      thread
    end

    def handle_signals
      # The end of the control socket decides, not a signal: the socket files of a dead front must be removed.
      trap("TERM") { raise SignalException, "TERM" if Native.child? }
      # Not "IGNORE", which programs that the application starts would keep.
      Worker.ignore_terminal_signals(@start.terminal)
    end

    # Loads everything and reports. Does not return where the application cannot be loaded.
    def boot
      Process.setproctitle("highball: template, generation #{@start.generation}, #{@start.app}")
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      load_application
      load_worker
      @runtime.loaded
      @runtime.merge_pages if @start.merge_pages
      @warm_up = WarmUp.new(@app, @start.warm_up, @start.frequent_paths) { |fault| warn("highball: #{fault}") }
      @warm_up.run
      Native.refuse_children
      @runtime.prepare_heap(compact: @start.compact_heap, roomy: @start.roomy_heap)
      report_booted(Process.clock_gettime(Process::CLOCK_MONOTONIC) - began)
    rescue SignalException
      raise
    rescue Exception => error # rubocop:disable Lint/RescueException -- exit and abort are failures here
      # The application forked this process, which came back here: it must not speak for the template.
      raise if Native.child?

      fail_boot(error)
    end

    def load_application
      Debugger.use(@start.terminal) if @start.terminal
      @hooks = Hooks.load(@start.hooks)
      @app = Application.load(@start)
      Debugger.hook
      RailsLog.show if @start.rails_log_to_stdout
      # Before the first request, with which Rails turns them into patterns.
      @filter_parameters = FilterParameters.names
    end

    def report_booted(seconds)
      held = ForkSafety.held(@own, [@fork_thread])
      advice = KnownLibraries.sentences + DatabasePool.warnings(@start.threads) + NativeThreads.warnings +
               MajorCollections.warnings(@start.out_of_band_gc)
      public_folder = PublicFolder.of(@app)
      Native.booted(
        @control.fileno, RUBY_VERSION, ::Rack.release, seconds, held, advice, @filter_parameters, public_folder,
        @runtime.facts + @warm_up.fact
      )
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
      require_relative "error_page" if @start.error_page
      measure_requests if @start.measure_requests
      require_relative "exception_reporter" if @start.exceptions
      Native.prepare(
        @front, $stderr, EmptyInput.new, Connection, @start.threads > 1, @start.early_hints, RACK_RELEASE
      )
    end

    def measure_requests
      require_relative "measures"
      Measures.start(@start.threads)
    end

    # A front with several threads that dies makes the kernel send TERM more than once.
    def stop_loading
      raise SignalException, "TERM" unless @leaving
    end

    # The front is gone, or was about to start this process and failed.
    def leave
      @leaving = true
      # A launcher's child does not see the front's end, and may not remove its files.
      exit!(0) if @start&.own_user
      SocketFiles.remove_dead(@start.unix_sockets) if @start && SocketFiles.wait_for_death_of(@front)
      exit!(0)
    end
  end
end

Highball::Template.run if $PROGRAM_NAME == __FILE__
