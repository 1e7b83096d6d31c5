# frozen_string_literal: true

require "test_helper"
require "highball/database_pool"
require "open3"
require "rbconfig"

# In processes of their own, with the Active Record of the system: the tests themselves have none.
class DatabasePoolTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)

  def warnings(script, threads)
    source = "#{script}\nputs Highball::DatabasePool.warnings(#{threads})"
    output, status = Open3.capture2e(RbConfig.ruby, "-I", LIB, "-r", "highball/database_pool", "-e", source)
    assert status.success?, output
    output.lines(chomp: true)
  end

  def with_pool(size)
    <<~RUBY
      require "active_record"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:", pool: #{size})
    RUBY
  end

  def test_an_application_without_active_record_gives_no_sentence
    assert_empty warnings("", 5)
  end

  def test_a_pool_with_a_connection_for_each_thread_gives_no_sentence
    assert_empty warnings(with_pool(5), 5)
  end

  def test_a_pool_that_is_smaller_than_the_threads_is_named_with_what_to_do
    sentence, *rest = warnings(with_pool(2), 5)
    assert_empty rest
    assert_match(/\Athe database pool "\w+" has 2 connections for the 5 threads of a worker: /, sentence)
    assert_match(%r{set pool to 5 or more in config/database.yml, or threads to 2\z}, sentence)
  end
end
