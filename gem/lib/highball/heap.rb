# frozen_string_literal: true

require_relative "native"

module Highball
  # Makes the memory of a template ready for its workers: what they share with it must not change afterwards. The
  # template runs nothing while it is done.
  module Heap
    # Garbage collections before a template's first fork, where Process.warmup is not used (Ruby 3.3). Objects that
    # survive three are old, and a worker's minor collections do not write to old objects, so their memory stays shared.
    COLLECTIONS = 3
    private_constant :COLLECTIONS

    class << self
      # Once, before the first fork of a template. Returns by what the heap was compacted, and why so.
      def prepare(compact)
        shrink(compact).tap { Native.release_memory }
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
    end
  end
end
