# frozen_string_literal: true

module Highball
  # Debuggers in template and workers: binding.irb, debug, byebug and Pry. One at a time has the terminal; a thread that
  # opens another one waits until the first is closed. It is used only if the server was started in a terminal, in the
  # environments development and test.
  #
  # While a debugger is open, its process holds the lock of the terminal (flock(2)). By that lock the server knows that
  # Ctrl-C is meant for the debugger (crates/highball/src/system/terminal.rs), and the kernel releases it when the
  # process ends.
  module Debugger
    # What a debugger runs while it is open: the class, and the name of its method.
    METHODS = {
      "Binding" => :irb,
      "Byebug::CommandProcessor" => :process_commands,
      "Pry::REPL" => :start
    }.freeze
    private_constant :METHODS

    # For the gem debug, which reads in a thread of its own, and stops all others while such a session lasts.
    module Session
      private

      def enter_subsession(...)
        Debugger.lock
        super
      end

      def leave_subsession(...)
        super
      ensure
        Debugger.unlock
      end
    end

    @hooked = []
    @sessions = []

    class << self
      # From now on debuggers read from this terminal, a path. Where it cannot be opened, they read nothing.
      def use(terminal)
        $stdin.reopen(terminal, "r")
        @terminal = terminal
        hook
      rescue SystemCallError => error
        warn("highball: debuggers cannot use the terminal: #{error.message}")
      end

      # Watches the debuggers that are loaded by now. Does nothing before #use.
      def hook
        return unless @terminal

        # It loads the class below only when it is called.
        require "byebug/core" if defined?(::Byebug)
        load_session
        METHODS.each { |name, method| prepend_once(name, method) { hook_of(name, method) } }
        prepend_once("DEBUGGER__::Session", :enter_subsession) { Session }
      end

      # Prepares the gem debug for this worker. Starts its session where only the gem's prelude was loaded: one of the
      # template would have a thread there, and follow each fork. The gem stops all threads of the application at its
      # prompt, but not the main thread where that `only_waits`: Ruby runs the handler of Ctrl-C in it.
      def enter_worker(only_waits:)
        ::DEBUGGER__.start(no_sigint_hook: true, nonstop: true) if @starts_session
        return unless @terminal && only_waits && defined?(::DEBUGGER__::SESSION)

        ::DEBUGGER__::SESSION.get_thread_client(Thread.main).mark_as_management
      rescue NoMethodError
        # Another version of the gem: Ctrl-C at its prompt does nothing.
        nil
      end

      # Runs the block, this debugger, with the terminal. One that is opened within another one has it already; the gem
      # debug runs what is typed in a thread of its own, and has stopped all others.
      def open(name, &block)
        return yield if @thread == Thread.current || @sessions.any?

        File.open(@terminal) do |file|
          file.flock(File::LOCK_EX)
          hold(file, name, &block)
        end
      end

      # Takes the terminal until #unlock, which must be called as often.
      def lock
        file = File.open(@terminal)
        file.flock(File::LOCK_EX) if @sessions.empty?
        @sessions.push(file)
      end

      # Gives the terminal back.
      def unlock
        # Not the first one while others are there: it has the lock.
        file = @sessions.pop or return
        release(file) if @sessions.empty?
        file.close
      end

      # INT came, and no debugger has a handler for it. Pry rescues Interrupt; with others it would end the request.
      def interrupt
        @thread&.raise(Interrupt, "") if @name == "Pry::REPL"
      end

      # Raises in the thread that runs IRB what IRB's handler of INT raised in the main thread, where Ruby runs all
      # handlers. What Byebug's handler raises is dropped: Byebug stops the main thread, and it comes when Byebug has
      # ended. Returns whether the exception was a debugger's.
      def forward(error)
        thread = @thread
        thread&.raise(error) if @name == "Binding"
        !thread.nil? || Interrupt === error
      end

      private

      def hold(file, name)
        @thread = Thread.current
        @name = name
        yield
      ensure
        @thread = nil
        release(file)
      end

      # Closing would not do: a process that was forked at the prompt has the file open as well.
      def release(file)
        file.flock(File::LOCK_UN)
      end

      # Prepends what the block returns to a class, if that is loaded and has the method.
      def prepend_once(name, method)
        return if @hooked.include?(name) || !Object.const_defined?(name)

        owner = Object.const_get(name)
        return unless owner.method_defined?(method) || owner.private_method_defined?(method)

        owner.prepend(yield)
        @hooked << name
      end

      # Loads the gem debug where its prelude is loaded, as in Gemfiles of Rails: `require: "debug/prelude"`. By itself
      # the prelude does so at the first stop, when nobody could watch it in time.
      def load_session
        # No other gem gives bindings such a method.
        return if defined?(::DEBUGGER__) || !Binding.method_defined?(:break)

        require "debug/session"
        @starts_session = true
      rescue LoadError
        # The prelude came by RUBYOPT, and the gem is not in the bundle.
        nil
      end

      def hook_of(name, method)
        Module.new do
          define_method(method) do |*arguments, **options, &block|
            Debugger.open(name) { super(*arguments, **options, &block) }
          end
        end
      end
    end
  end
end
