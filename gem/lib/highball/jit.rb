# frozen_string_literal: true

module Highball
  # Ruby's compiler YJIT, which the template enables for itself and its workers. It never disables one, and does nothing
  # against what the application or its operator has decided.
  class Jit
    # What the server wants: auto, yjit, none, or plain (the setting `runtime`, by which it wants none).
    VARIABLE = "HIGHBALL_TEMPLATE_JIT"
    # In its place in a Ruby that was started again.
    STARTED = "started"
    # Before this version only an option of Ruby's enables it.
    ENABLED_BY_METHOD = Gem::Version.new("3.3")
    # Before this version it was experimental.
    FIRST_STABLE = Gem::Version.new("3.2")
    # Megabytes for machine code where an option enables it: Ruby 3.1 holds all of them in memory, by itself 256.
    # Redmine's pages take 6.
    CODE_MEGABYTES = 64
    # All compilers that Rubies have had.
    COMPILERS = %i[YJIT ZJIT RJIT MJIT].freeze
    # Options of Ruby's that are about a compiler.
    OPTION = /\A--(?:(?:enable|disable)[-=]\S*)?[a-z]?jit\b|\A--disable[-=]all\b/
    private_constant :STARTED, :ENABLED_BY_METHOD, :FIRST_STABLE, :CODE_MEGABYTES, :COMPILERS, :OPTION

    # Takes what the server wants out of the environment, which the application will see.
    def initialize
      @wanted = ENV.delete(VARIABLE) || "none"
      @version = Gem::Version.new(RUBY_VERSION)
    end

    # Runs this program again with YJIT, where it is wanted and only an option enables it. Must come before anything
    # else.
    def run_again(program, *options)
      return if @version >= ENABLED_BY_METHOD || compiler || obstacle

      ENV[VARIABLE] = STARTED
      exec(RbConfig.ruby, "--yjit", "--yjit-exec-mem-size=#{CODE_MEGABYTES}", *options, program)
    rescue SystemCallError
      # The application runs without it.
      ENV.delete(VARIABLE)
    end

    # Enables YJIT, where it is wanted: now that the application is loaded, code that ran once is not compiled, and
    # workers share what is compiled before they are forked.
    def enable
      return if @version < ENABLED_BY_METHOD || compiler || obstacle

      ::RubyVM::YJIT.enable
      @enabled = compiler
    end

    # What there is, and why.
    def fact
      running = compiler
      ["jit", running || "none", running ? cause : obstacle || "Ruby could not enable YJIT"]
    end

    private

    # The compiler that is enabled.
    def compiler
      found = COMPILERS.find do |name|
        ::RubyVM.const_defined?(name, false) && ::RubyVM.const_get(name, false).enabled?
      end
      found&.to_s&.downcase
    end

    def cause
      return "enabled once the application was loaded" if @enabled
      return "Ruby was started with --yjit" if @wanted == STARTED

      "enabled by Ruby's options or by the application"
    end

    # Why it is not enabled, in words.
    def obstacle
      case @wanted
      when "plain" then 'runtime = "plain"'
      when "none" then 'jit = "none"'
      else decided || missing || (refused if @wanted == "auto" && defined?(::Rails))
      end
    end

    # The operator's own options.
    def decided
      return "your RUBYOPT holds" if ENV["RUBYOPT"].to_s.split.any?(OPTION)

      "your RUBY_YJIT_ENABLE holds" unless ENV["RUBY_YJIT_ENABLE"].to_s.empty?
    end

    def missing
      return "this Ruby was built without YJIT" unless defined?(::RubyVM::YJIT)

      return if @wanted != "auto" || @version >= FIRST_STABLE

      "YJIT of Ruby #{RUBY_VERSION} is experimental (jit = \"yjit\" enables it)"
    end

    # Rails enables it by itself from 7.2 on, unless its configuration says no, as it does by itself where
    # `load_defaults` is older. So `jit = "yjit"` enables it all the same.
    def refused
      config = ::Rails.respond_to?(:application) && ::Rails.application&.config
      return unless config.respond_to?(:yjit) && !config.yjit

      'config.yjit of Rails is false (jit = "yjit" enables it all the same)'
    end
  end
end
