# frozen_string_literal: true

module Highball
  # Keeps Ruby's major collections of garbage out of requests, where Ruby can do without them (from 3.4 on). All
  # threads of a worker share one of these. It says when a collection is due, and never whose turn it is.
  #
  # While none is made the heap grows, also where Ruby wants none: instead of collecting it adds pages. So the heap is
  # looked at after each minor collection, also within a request. Beyond the bounds Ruby decides as always.
  class MajorCollections
    # Slots of the heap for each object that was old after the latest major collection. Ruby's own rule gives memory
    # back where there are more than 2.9.
    SLOTS_PER_OLD_OBJECT = 3
    # Bytes that old objects have allocated outside of the heap since then. Ruby's own limit grows up to that.
    OLD_BYTES = 128 * 1024 * 1024
    # Collections after which the look at the heap counts as lost: something keeps the object whose end calls for it.
    MISSED_COLLECTIONS = 4

    # Whether Ruby can do without major collections.
    def self.supported?(collector = GC)
      collector.respond_to?(:config) && collector.config.key?(:rgengc_allow_full_mark)
    end

    # What is to be said where they are `wanted` out of requests, in sentences.
    def self.warnings(wanted)
      return [] if !wanted || supported?

      ["out_of_band_gc does nothing: Ruby #{RUBY_VERSION} makes major collections when it wants (3.4 and newer can " \
       "leave them to the server)"]
    end

    def initialize(collector = GC)
      @collector = collector
      @chain = 0
      @watched = collector.count
      @ending = false
      begin_period(collector.stat(:major_gc_count))
    end

    # Has Ruby make no major collection in this process from now on.
    def enter
      configure
      # At its end Ruby runs finalizers until there is none.
      at_exit { @ending = true }
      watch
    end

    # Whether Ruby wants a major collection.
    def due?
      watch if @collector.count - @watched > MISSED_COLLECTIONS
      @collector.latest_gc_info(:need_major_by) ? true : false
    end

    # Makes it.
    def collect
      @collector.start
      after_collection
    end

    # Looks at the heap once Ruby has collected, and decides whether Ruby may make the next major collection itself.
    def after_collection
      majors = @collector.stat(:major_gc_count)
      begin_period(majors) if majors != @majors
      configure
    end

    private

    # A major collection has just been made, or this worker begins.
    def begin_period(majors)
      @majors = majors
      @old = @collector.stat(:old_objects)
    end

    def outgrown?
      @collector.stat(:heap_available_slots) > @old * SLOTS_PER_OLD_OBJECT ||
        @collector.stat(:oldmalloc_increase_bytes) > OLD_BYTES
    end

    # Asked each time, for GC.start puts back what it found, also where a finalizer has changed it meanwhile.
    def configure
      allowed = outgrown?
      @collector.config(rgengc_allow_full_mark: allowed) if @collector.config[:rgengc_allow_full_mark] != allowed
    end

    # Has `after_collection` called after the next collection: by the finalizer of an object that is garbage already.
    def watch
      @watched = @collector.count
      chain = (@chain += 1)
      ObjectSpace.define_finalizer(Object.new, proc { looked(chain) })
      nil
    end

    # A second chain of such objects could have begun meanwhile: this one then ends.
    def looked(chain)
      return if @ending || chain != @chain

      after_collection
      watch
    end
  end
end
