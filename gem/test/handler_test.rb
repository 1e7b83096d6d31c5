# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "pathname"
require "rack"
require "rbconfig"
require "tmpdir"
require "rackup" unless Rack.release.start_with?("2.")

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))

class HandlerTest < Minitest::Test
  # What rackup passes on, whatever it was given.
  RACKUP = { environment: "development", pid: nil, AccessLog: [], config: File.expand_path("config.ru") }.freeze

  # Rack 3 has its servers in a gem of its own.
  HANDLERS = Rack.release.start_with?("2.") ? Rack::Handler : Rackup::Handler

  def handler
    HANDLERS.get("highball")
  end

  def command(**options)
    handler.command(**options).drop(2)
  end

  def test_rack_finds_the_handler_by_its_name
    assert_equal "#{HANDLERS}::Highball", handler.to_s
  end

  def test_rackups_address_is_listened_on
    {
      { Host: "localhost", Port: 9292 } => "localhost:9292",
      { Host: "0.0.0.0", Port: 80 } => "0.0.0.0:80",
      { Host: "::1", Port: "80" } => "[::1]:80",
      { Host: "[::]", Port: "80" } => "[::]:80",
      { Port: 80 } => "80",
      { Host: "/tmp/a.sock", Port: 80 } => "unix:/tmp/a.sock",
      { Host: "./tmp/a.sock", Port: 80 } => "unix:./tmp/a.sock",
      { Host: "unix:/tmp/a.sock", Port: 80 } => "unix:/tmp/a.sock",
      { Host: "unix:///tmp/a.sock", Port: 80 } => "unix:/tmp/a.sock"
    }.each { |options, address| assert_equal [Dir.pwd, "--listen", address], command(**options) }
  end

  def test_a_host_that_is_no_address_is_refused_with_its_name
    assert_output(nil, %r{cannot listen on "ssl://a\\n".*name an IP address}) do
      assert_raises(SystemExit) { command(Host: "ssl://a\n", Port: 80) }
    end
  end

  def test_what_a_rails_user_did_not_give_is_left_to_the_settings
    options = { Host: "localhost", Port: 3000, environment: "development", DoNotReverseLookup: true, caching: nil }
    assert_equal [Dir.pwd], command(**options, user_supplied_options: [:daemon])
    assert_equal [Dir.pwd, "--listen", "localhost:3000"], command(**options, user_supplied_options: [:Port])
    assert_equal [Dir.pwd, "--environment", "development"], command(**options, user_supplied_options: [:environment])
  end

  def test_rails_log_early_hints_and_pid_file_are_passed_on
    given = { user_supplied_options: [], log_stdout: true, early_hints: true, pid: "/srv/app/tmp/pids/server.pid" }
    assert_equal(
      [Dir.pwd, "--pid-file", "/srv/app/tmp/pids/server.pid", "--rails-log-to-stdout", "true", "--early-hints", "true"],
      command(**given)
    )
    assert_equal [Dir.pwd], command(user_supplied_options: [], log_stdout: false, early_hints: nil, pid: nil)
  end

  def test_another_rackup_file_is_named
    assert_equal [Dir.pwd], command(config: File.expand_path("config.ru"))
    assert_equal [Dir.pwd, "--rackup", File.expand_path("other.ru")], command(config: "other.ru")
  end

  def test_the_folder_of_a_daemon_is_that_of_its_rackup_file
    Dir.mktmpdir do |folder|
      folder = File.realpath(folder)
      Dir.chdir("/") do
        assert_equal [folder], command(config: File.join(folder, "config.ru"), daemonize: true)
        expected = [folder, "--rackup", File.join(folder, "other.ru")]
        assert_equal expected, command(config: File.join(folder, "other.ru"), daemonize: true)
      end
    end
  end

  def test_the_folder_of_a_rails_application_is_the_one_that_rails_names
    with_root("/srv/app") do
      Dir.chdir("/") { assert_equal ["/srv/app"], command(config: "config.ru", daemonize: true) }
    end
  end

  def test_options_of_rackup_are_settings
    assert_equal [Dir.pwd, "--workers=2", "--threads=5"], command(**RACKUP, Workers: "2", Threads: 5)
    assert_equal [Dir.pwd, "--early-hints=true"], command(**RACKUP, early_hints: nil, "early-hints": true)
    assert_equal [Dir.pwd, "--request-timeout=5s"], command(**RACKUP, request_timeout: "5s")
    assert_equal [Dir.pwd, "--listen=[::1]:80"], command(**RACKUP, Host: "localhost", Port: 9292, listen: "[::1]:80")
  end

  def test_options_of_another_rails_are_no_settings
    assert_equal [Dir.pwd], command(user_supplied_options: [], something_new: true)
  end

  # Rails' own plugin for these tests has the module, without an application.
  def with_root(folder)
    rails = Object.const_defined?(:Rails) ? ::Rails : Object.const_set(:Rails, Module.new)
    rails.define_singleton_method(:root) { Pathname.new(folder) }
    yield
  ensure
    rails.singleton_class.remove_method(:root)
  end

  def test_a_line_of_rackup_instead_of_a_file_is_refused
    assert_output(nil, /rackup -b is not supported/) { assert_raises(SystemExit) { command(builder: "run 1") } }
  end
end

# What `require "highball"` does in the process of a command, each in one of its own.
class DefaultHandlerTest < Minitest::Test
  LIBRARY = File.expand_path("../lib", __dir__)

  # The variables after a process with these parts has loaded the gem.
  def named(server: true, bundler: true, gems: [], variables: {})
    script = <<~RUBY
      #{"module Bundler; end" if bundler}
      #{"module Rack; class Server; end; end" if server}
      #{gems.inspect}.each { |name| Gem.loaded_specs[name] = Gem::Specification.new }
      require "highball"
      p ENV.values_at("RACK_HANDLER", "RACKUP_HANDLER")
    RUBY
    unset = { "RACK_HANDLER" => nil, "RACKUP_HANDLER" => nil, "RUBYOPT" => nil }
    script.sub!("module Rack;", "module Rack; def self.autoload?(_) = nil;")
    output, status = Open3.capture2e({ **unset, **variables }, RbConfig.ruby, "-I", LIBRARY, "-e", script)
    assert status.success?, output
    output.chomp
  end

  def test_the_only_server_of_the_bundle_is_the_default_of_the_commands
    assert_equal '["highball", "highball"]', named
    assert_equal '["highball", "highball"]', named(gems: ["webrick"])
  end

  def test_another_server_of_the_bundle_stays_the_default
    %w[puma falcon thin].each { |name| assert_equal "[nil, nil]", named(gems: [name]) }
  end

  def test_a_server_that_a_variable_names_stays_the_default
    assert_equal '["thin", nil]', named(variables: { "RACK_HANDLER" => "thin" })
    assert_equal '[nil, "puma"]', named(variables: { "RACKUP_HANDLER" => "puma" })
  end

  def test_nothing_is_chosen_in_other_processes
    assert_equal "[nil, nil]", named(server: false)
    assert_equal "[nil, nil]", named(bundler: false)
  end

  def test_asking_for_the_default_does_not_load_rack_2s_server
    script = 'module Bundler; end; require "rack"; require "highball"; p ENV["RACK_HANDLER"], Rack.autoload?(:Server)'
    output, = Open3.capture2e({ "RACK_HANDLER" => nil, "RUBYOPT" => nil }, RbConfig.ruby, "-I", LIBRARY, "-e", script)
    server = Rack.release.start_with?("2.") ? "\"rack/server\"" : "nil"
    assert_equal "nil\n#{server}\n", output
  end
end
