# frozen_string_literal: true

require "test_helper"
require "highball/hooks"

class HooksTest < Minitest::Test
  def load(text)
    Dir.mktmpdir do |folder|
      path = File.join(folder, "highball.rb")
      File.write(path, text)
      Highball::Hooks.load(path)
    end
  end

  def test_blocks_run_in_the_order_of_the_file_with_their_arguments
    Thread.current[:seen] = []
    hooks = load("after_fork { |worker| Thread.current[:seen] << [1, worker] }\n" \
                 "after_fork { |worker| Thread.current[:seen] << [2, worker] }")
    hooks.run(:after_fork, 7) { flunk }
    assert_equal [[1, 7], [2, 7]], Thread.current[:seen]
  end

  def test_each_error_is_given_to_the_caller
    errors = []
    hooks = load("before_fork { raise 'a' }\nbefore_fork { require 'no/such' }")
    hooks.run(:before_fork) { |error| errors << error.class }
    assert_equal [RuntimeError, LoadError], errors
  end

  def test_constants_are_the_applications
    Object.const_set(:Worker, Class.new)
    hooks = load("before_fork { Thread.current[:seen] = [Worker, defined?(Hooks)] }")
    hooks.run(:before_fork) { |error| raise error }
    assert_equal [Object::Worker, nil], Thread.current[:seen]
  ensure
    Object.send(:remove_const, :Worker)
  end

  def test_no_file_means_no_hooks
    Highball::Hooks.load(nil).run(:before_fork) { flunk }
  end

  def test_a_hook_without_a_block_is_an_error_with_its_place
    error = assert_raises(ArgumentError) { load("\nafter_fork") }
    assert_match(/highball\.rb:2/, error.backtrace.join("\n"))
  end
end
