# frozen_string_literal: true

require "test_helper"
require "open3"

# In processes of their own, as a compiler cannot be disabled again.
class JitTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)
  VERSION = Gem::Version.new(RUBY_VERSION)
  OLD = VERSION < Gem::Version.new("3.3")
  YJIT = defined?(RubyVM::YJIT) ? true : false
  RAILS = <<~RUBY
    module Rails
      def self.application = Struct.new(:config).new(Struct.new(:yjit).new(false))
    end
  RUBY

  # What a program has that asks for the compiler `wanted`, runs `before`, and enables it: value and reason.
  def jit(wanted, before: "", options: [], **variables)
    Dir.mktmpdir do |folder|
      program = File.join(folder, "program.rb")
      File.write(program, <<~RUBY)
        require "highball/jit"
        jit = Highball::Jit.new
        jit.run_again(__FILE__, "-I", #{LIB.inspect})
        #{before}
        jit.enable
        enabled = defined?(RubyVM::YJIT) ? RubyVM::YJIT.enabled? : false
        p [*jit.fact, enabled, ENV.key?("HIGHBALL_TEMPLATE_JIT")]
      RUBY
      clean = { "HIGHBALL_TEMPLATE_JIT" => wanted, "RUBYOPT" => nil, "RUBY_YJIT_ENABLE" => nil }
      clean.merge!(variables.transform_keys(&:to_s))
      output, status = Open3.capture2e(clean, RbConfig.ruby, *options, "-I", LIB, program)
      assert status.success?, output
      name, value, reason, enabled, variable = eval(output) # rubocop:disable Security/Eval -- of a program of this test
      assert_equal ["jit", value == "yjit", false], [name, enabled, variable]
      [value, reason]
    end
  end

  def test_a_compiler_that_is_wanted_by_name_is_enabled_where_ruby_has_it
    expected = ["none", "this Ruby was built without YJIT"]
    expected = ["yjit", OLD ? "Ruby was started with --yjit" : "enabled once the application was loaded"] if YJIT
    assert_equal expected, jit("yjit")
  end

  def test_ruby_3_1_takes_no_more_memory_for_machine_code_than_the_server_names
    # Later ones take it as it is needed.
    return unless YJIT && VERSION < Gem::Version.new("3.2")

    before = 'abort unless File.read("/proc/self/cmdline").include?("--yjit-exec-mem-size=64")'
    assert_equal "yjit", jit("yjit", before:).first
  end

  def test_an_experimental_compiler_is_not_enabled_without_its_name
    value, reason = jit("auto")
    stable = VERSION >= Gem::Version.new("3.2")
    assert_equal((YJIT && stable ? "yjit" : "none"), value)
    assert_match(/is experimental/, reason) if YJIT && !stable
  end

  def test_none_and_plain_leave_ruby_as_it_was_started
    assert_equal ["none", "jit = \"none\""], jit("none")
    assert_equal ["none", "runtime = \"plain\""], jit("plain")
    assert_equal ["none", "jit = \"none\""], jit(nil)
    skip "this Ruby was built without YJIT" unless YJIT
    assert_equal ["yjit", "enabled by Ruby's options or by the application"], jit("none", options: ["--yjit"])
  end

  def test_options_of_the_operator_hold
    skip "this Ruby was built without YJIT" unless YJIT
    ["--disable-yjit", "-W0 --disable=yjit", "--disable-jit"].each do |options|
      assert_equal ["none", "your RUBYOPT holds"], jit("yjit", RUBYOPT: options)
    end
    assert_equal "yjit", jit("none", RUBYOPT: "--yjit").first
    # Ruby 3.1 takes every value for a yes.
    assert_match(/your RUBY_YJIT_ENABLE holds|by Ruby's options/, jit("yjit", RUBY_YJIT_ENABLE: "0").last)
    assert_equal "yjit", jit("yjit", RUBYOPT: "-W0 -rset").first
  end

  def test_a_compiler_that_rails_refuses_is_enabled_after_loading_only_by_its_name
    skip "this Ruby was built without YJIT" unless YJIT
    assert_equal "yjit", jit("yjit", before: RAILS).first
    # Ruby 3.2 enables it before anything is loaded, and in 3.1 it is experimental.
    return if OLD

    value, reason = jit("auto", before: RAILS)
    assert_equal "none", value
    assert_match(/config.yjit of Rails is false/, reason)
  end
end
