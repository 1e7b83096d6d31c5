# frozen_string_literal: true

require "test_helper"
require "highball/major_collections"
require "fake_supervisor"

class MajorCollectionsTest < Minitest::Test
  # A collector whose figures the test says.
  class Collector
    attr_accessor :slots, :old, :old_bytes, :majors, :wanted, :count

    attr_reader :configurations

    def initialize
      @slots = 200
      @old = 100
      @old_bytes = @majors = @count = 0
      @configurations = [false]
    end

    def config(values = nil)
      return { rgengc_allow_full_mark: @configurations.last } unless values

      @configurations << values.fetch(:rgengc_allow_full_mark)
    end

    def stat(key)
      { heap_available_slots: slots, oldmalloc_increase_bytes: old_bytes, major_gc_count: majors, old_objects: old }
        .fetch(key)
    end

    def latest_gc_info(key)
      raise key.to_s unless key == :need_major_by

      wanted
    end

    def start
      @majors += 1
      @wanted = nil
      @old_bytes = 0
    end
  end

  def setup
    @collector = Collector.new
    @majors = Highball::MajorCollections.new(@collector)
  end

  # A minor collection, after which the heap has so many slots.
  def minor(slots, old_bytes: 0)
    @collector.slots = slots
    @collector.old_bytes = old_bytes
    @majors.after_collection
  end

  def test_it_is_there_where_ruby_can_do_without_major_collections
    assert Highball::MajorCollections.supported?(@collector)
    refute Highball::MajorCollections.supported?(Object.new)
    other = Collector.new
    def other.config(_values = nil)
      { implementation: "mmtk" }
    end
    refute Highball::MajorCollections.supported?(other)
    assert_equal RUBY_VERSION >= "3.4", Highball::MajorCollections.supported?
  end

  def test_a_collection_is_due_where_ruby_wants_one_and_no_longer_once_it_was_made
    refute @majors.due?
    @collector.wanted = :oldgen
    assert @majors.due?
    @majors.collect
    assert_equal 1, @collector.majors
    refute @majors.due?
    assert_equal [false], @collector.configurations
  end

  def test_a_heap_that_has_outgrown_its_bound_is_left_to_ruby_until_it_is_small_again
    minor(300)
    assert_equal [false], @collector.configurations
    minor(301)
    minor(500)
    assert_equal [false, true], @collector.configurations
    # Ruby's own, in a request.
    @collector.start
    minor(290)
    assert_equal [false, true, false], @collector.configurations
  end

  def test_the_bound_follows_what_is_old_after_each_major_collection
    @collector.old = 200
    minor(301)
    assert_equal [false, true], @collector.configurations
    @majors.collect
    minor(600)
    assert_equal [false, true, false], @collector.configurations
    minor(601)
    assert_equal [false, true, false, true], @collector.configurations
  end

  def test_what_old_objects_have_allocated_is_bounded_too
    bytes = Highball::MajorCollections::OLD_BYTES
    minor(200, old_bytes: bytes)
    assert_equal [false], @collector.configurations
    minor(200, old_bytes: bytes + 1)
    assert_equal [false, true], @collector.configurations
  end

  def test_what_another_code_has_changed_is_put_back
    @collector.config(rgengc_allow_full_mark: true)
    minor(200)
    assert_equal [false, true, false], @collector.configurations
  end

  # What it does to a real collector, in a process of its own that has entered it. The text prints what is compared.
  def in_ruby(text)
    library = File.expand_path("../lib", __dir__)
    IO.popen([RbConfig.ruby, "-I", library, "-r", "highball/major_collections", "-e", text], &:read)
  end

  GROWING = <<~'RUBY'
    $base = Array.new(400_000) { Object.new }
    4.times { GC.start }
    supported = Highball::MajorCollections.supported?
    Highball::MajorCollections.new.enter if supported
    allowed = supported && GC.config[:rgengc_allow_full_mark]
    # Objects that may become old before they are garbage.
    100.times do
      $kept = Array.new(30_000) { Object.new }
      30.times { Array.new(10_000) { Object.new } }
    end
    print supported, " ", allowed, " ", GC.stat(:heap_available_slots) < 2_500_000
  RUBY

  def test_a_long_request_cannot_grow_the_heap_beyond_its_bound
    assert_equal "#{RUBY_VERSION >= "3.4"} false true", in_ruby(GROWING)
  end

  ENDING = <<~'RUBY'
    majors = Highball::MajorCollections.new
    def GC.config(*) = { rgengc_allow_full_mark: false }
    majors.enter
    pid = fork { exit 3 }
    Process.wait(pid)
    print $?.exitstatus
  RUBY

  def test_a_process_and_its_children_end_although_it_looks_after_each_collection
    assert_equal "3", in_ruby(ENDING)
  end

  LOOKING = <<~'RUBY'
    majors = Highball::MajorCollections.new
    def GC.config(*) = { rgengc_allow_full_mark: false }
    looks = 0
    majors.define_singleton_method(:after_collection) { looks += 1 }
    majors.enter
    5.times { GC.start(full_mark: false); Array.new(100_000) { Object.new } }
    print looks.between?(3, GC.count)
  RUBY

  def test_it_looks_at_the_heap_after_each_collection
    assert_equal "true", in_ruby(LOOKING)
  end

  def test_a_look_that_never_came_is_made_up_for
    watched = 0
    @majors.define_singleton_method(:watch) do
      watched += 1
      @watched = @collector.count
    end
    @majors.enter
    @collector.count = 4
    @majors.due?
    assert_equal 1, watched
    @collector.count = 5
    2.times { @majors.due? }
    assert_equal 2, watched
  end

  APPLICATION = <<~'RUBY'
    # So many old objects that the heap is within its bound.
    $kept = Array.new(200_000) { Object.new }
    run ->(_env) { [200, {}, [(GC.respond_to?(:config) ? GC.config[:rgengc_allow_full_mark] : "unknown").to_s]] }
  RUBY

  def test_workers_make_no_major_collection_in_requests_where_it_is_wanted_and_ruby_can
    { true => "false", false => "true" }.each do |wanted, allowed|
      FakeSupervisor.open({ "config.ru" => APPLICATION }, out_of_band_gc: wanted) do |supervisor|
        supervisor.message
        supervisor.fork_worker
        expected = Highball::MajorCollections.supported? ? allowed : "unknown"
        assert_equal expected, supervisor.request.body
      end
    end
  end
end
