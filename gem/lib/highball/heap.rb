# frozen_string_literal: true

require_relative "native"

module Highball
  # Makes the memory of a template ready for its workers: what they share with it must not change afterwards. The
  # template runs nothing while it is done.
  module Heap
    # Garbage collections before a template's first fork, where Process.warmup is not used (Ruby 3.3). Objects that
    # survive three are old, and a worker's minor collections do not write to old objects, so their memory stays shared.
    COLLECTIONS = 3
    # Slots of a roomy heap for each object in it.
    ROOM = 2
    # What a string needs in its slot beside its bytes.
    STRING_OVERHEAD = 25
    private_constant :COLLECTIONS, :ROOM, :STRING_OVERHEAD

    class << self
      # Once, before the first fork of a template. Returns name, value and reason of what was done, one after the other:
      # by what the heap was compacted, and how much room it has.
      def prepare(compact:, roomy:)
        facts = ["compact", *shrink(compact), "heap", *(roomy ? make_room : ["small", 'heap = "small"'])]
        Native.release_memory
        facts
      end

      private

      def shrink(compact)
        if compact && Process.respond_to?(:warmup)
          # It collects, compacts, makes all objects old, and gives free memory back.
          Process.warmup
          return ["Process.warmup", "this Ruby has it"]
        end
        COLLECTIONS.times { GC.start }
        return ["none", "compact = false"] unless compact

        GC.compact
        ["GC.compact", "this Ruby has no Process.warmup"]
      rescue NotImplementedError
        # Its workers share less memory.
        ["none", "this Ruby cannot compact on this machine"]
      end

      # Has the heap grow, by objects that are garbage at once. They are swept here, so that workers share the empty
      # pages until they use them. Ruby frees no page as long as less than 65 % of the slots are free.
      def make_room
        was_disabled = GC.disable
        heaps.each { |size, slots| Array.new(slots * (ROOM - 1)) { "x" * (size - STRING_OVERHEAD) } }
        GC.enable unless was_disabled
        GC.start
        slots = GC.stat(:heap_available_slots)
        ["roomy", "#{slots} slots, #{GC.stat(:heap_free_slots) * 100 / slots} % of them free"]
      end

      # Size and number of the slots in use: Ruby 3.2 and newer have a heap for each size.
      def heaps
        return [[40, GC.stat(:heap_live_slots)]] unless GC.respond_to?(:stat_heap)

        GC.stat_heap.values.map { |heap| [heap[:slot_size], heap[:heap_eden_slots]] }
      end
    end
  end
end
