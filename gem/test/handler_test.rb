# frozen_string_literal: true

require "minitest/autorun"
require "rack"
require "tmpdir"

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))

class HandlerTest < Minitest::Test
  def command(**options)
    Rack::Handler.get("highball").command(**options).drop(2)
  end

  def test_rack_finds_the_handler_by_its_name
    assert_equal "Rack::Handler::Highball", Rack::Handler.get("highball").to_s
  end

  def test_rackups_address_is_listened_on
    {
      { Host: "localhost", Port: 9292 } => "localhost:9292",
      { Host: "0.0.0.0", Port: 80 } => "0.0.0.0:80",
      { Host: "::1", Port: "80" } => "[::1]:80",
      { Port: 80 } => "80",
      { Host: "/tmp/a.sock", Port: 80 } => "unix:/tmp/a.sock"
    }.each { |options, address| assert_equal [Dir.pwd, "--listen", address], command(**options) }
  end

  def test_what_a_rails_user_did_not_give_is_left_to_the_settings
    options = { Host: "localhost", Port: 3000 }
    assert_equal [Dir.pwd], command(**options, user_supplied_options: [:environment])
    assert_equal [Dir.pwd, "--listen", "localhost:3000"], command(**options, user_supplied_options: [:Port])
  end

  def test_another_rackup_file_is_named
    assert_equal [Dir.pwd], command(config: File.expand_path("config.ru"))
    assert_equal [Dir.pwd, "--rackup", File.expand_path("other.ru")], command(config: "other.ru")
  end

  def test_workers_and_threads_are_passed_on
    assert_equal [Dir.pwd, "--workers", "2", "--threads", "5"], command(Workers: "2", Threads: 5)
  end
end
