# frozen_string_literal: true

require "test_helper"
require "highball/fork_safety"
require "open3"
require "rbconfig"
require "tempfile"

# Each case in a process of its own: what the tests hold is not to be found.
class ForkSafetyTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)

  def held(script)
    source = "#{script}\nputs Highball::ForkSafety.held([])"
    output, status = Open3.capture2e(RbConfig.ruby, "-I", LIB, "-r", "highball/fork_safety", "-e", source)
    assert status.success?, output
    output.lines(chomp: true)
  end

  def test_a_process_that_holds_nothing_gives_no_sentence
    assert_empty held("")
  end

  def test_threads_that_their_library_starts_again_are_no_warning
    start = 'eval("Thread.new { sleep }", nil, "/gems/concurrent-ruby-1.2/lib/concurrent/timer_set.rb")'
    assert_empty held(start)
    known = "threads of concurrent-ruby are started again in each worker by themselves: nothing is to be done"
    source = "#{start}\nputs Highball::KnownLibraries.sentences"
    output, status = Open3.capture2e(RbConfig.ruby, "-I", LIB, "-r", "highball/fork_safety", "-e", source)
    assert status.success?, output
    assert_equal [known], output.lines(chomp: true)
  end

  def test_a_connection_is_named_by_its_peer_and_a_listener_by_its_address
    sentences = held(<<~RUBY)
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.addr[1])
      warn server.addr[1]
    RUBY
    port = sentences.shift
    assert_equal 2, sentences.size, sentences
    listens = /\Aa socket that listens on 127\.0\.0\.1:#{port} was opened while the application was loaded/
    assert_match(listens, sentences[0])
    assert_match(/\Aa connection to 127\.0\.0\.1:#{port} was opened .* open it in after_fork\z/, sentences[1])
  end

  def test_a_descriptor_that_ruby_does_not_know_is_found
    sentences = held(<<~RUBY)
      require "fcntl"
      pair = UNIXSocket.pair
      number = pair[0].fcntl(Fcntl::F_DUPFD, 100)
      pair.each(&:close)
    RUBY
    assert_equal 1, sentences.size, sentences
    assert_match(/\Aa UNIX socket pair was opened/, sentences[0])
  end

  def test_files_open_for_writing_are_named_unless_they_append
    Tempfile.create do |file|
      sentences = held(<<~RUBY)
        a = File.open(#{file.path.dump}, "r+")
        b = File.open(#{file.path.dump}, "a")
        c = File.open(#{file.path.dump}, "r")
      RUBY
      assert_equal 1, sentences.size, sentences
      assert_match(/\Athe file #{file.path} is open for writing/, sentences[0])
    end
  end

  def test_an_sqlite_database_is_called_one
    Tempfile.create do |file|
      sentences = held(<<~RUBY)
        require "sqlite3"
        database = SQLite3::Database.new(#{file.path.dump})
        database.execute("create table t (a)")
      RUBY
      assert_equal ["the SQLite database #{file.path} is open: open it again in after_fork"], sentences
    end
  end

  def test_active_records_own_connections_are_said_to_be_no_trouble
    Tempfile.create do |file|
      sentences = held(<<~RUBY)
        require "active_record"
        ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: #{file.path.dump})
        ActiveRecord::Base.connection.execute("create table t (a)")
      RUBY
      assert_includes sentences.last, "Active Record holds 1 of the connections above; each worker opens its own"
    end
  end

  def test_many_sentences_are_counted
    sentences = held("60.times { Thread.new { sleep } }")
    assert_equal "... and 10 more", sentences.last
    assert_equal 51, sentences.size
  end

  def test_a_loaded_gem_that_minds_is_named_with_its_advice
    Gem.loaded_specs["grpc"] = Gem::Specification.new("grpc", "1.60.0")
    advice = /\Agem grpc 1\.60\.0 does not survive a fork by itself: create its clients in after_fork/
    assert_match(advice, Highball::KnownLibraries.sentences[0])
  ensure
    Gem.loaded_specs.delete("grpc")
  end
end
