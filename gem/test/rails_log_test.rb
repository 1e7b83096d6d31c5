# frozen_string_literal: true

require "active_support"
require "active_support/core_ext/object/try"
require "active_support/logger"
require "minitest/autorun"
require "stringio"

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "highball/rails_log"

class RailsLogTest < Minitest::Test
  def setup
    @file = StringIO.new
    @stdout = $stdout
    $stdout = StringIO.new
  end

  def teardown
    $stdout = @stdout
  end

  # Rails' own plugin for these tests has the module, without an application.
  def show(logger)
    rails = Object.const_defined?(:Rails) ? ::Rails : Object.const_set(:Rails, Module.new)
    rails.define_singleton_method(:logger) { logger }
    Highball::RailsLog.show
  ensure
    rails.singleton_class.remove_method(:logger)
  end

  # Rails 7.1 and later put a logger around that of the settings.
  def as_rails_has_it(logger)
    return logger unless defined?(ActiveSupport::BroadcastLogger)

    ActiveSupport::BroadcastLogger.new(logger).tap { |outer| outer.formatter = logger.formatter }
  end

  def test_what_rails_logs_goes_to_its_own_place_and_to_stdout
    logger = ActiveSupport::Logger.new(@file)
    logger.level = Logger::INFO
    logger.formatter = ->(_, _, _, text) { "> #{text}\n" }
    logger = as_rails_has_it(logger)
    show(logger)
    logger.info("coupled")
    logger.debug("not shown")
    assert_equal "> coupled\n", $stdout.string
    assert_equal "> coupled\n", @file.string
  end

  def test_a_log_on_stdout_is_not_shown_twice
    logger = ActiveSupport::Logger.new($stdout)
    show(logger)
    logger.info("coupled")
    assert_equal "coupled\n", $stdout.string
  end

  # As in Rails 7.1 and later.
  def test_a_logger_that_writes_to_several_places_gets_one_more
    logger = Class.new(ActiveSupport::Logger) do
      attr_reader :places

      def broadcast_to(*places) = (@places = places)
    end.new(@file)
    show(logger)
    assert_equal [ActiveSupport::Logger], logger.places.map(&:class)
    logger.places.first.info("coupled")
    assert_equal "coupled\n", $stdout.string
  end

  def test_an_application_without_rails_or_without_a_logger_is_left_alone
    Highball::RailsLog.show
    show(nil)
    assert_empty $stdout.string
  end
end
