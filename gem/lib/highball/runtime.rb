# frozen_string_literal: true

require_relative "allocator"
require_relative "heap"
require_relative "jit"

module Highball
  # How Ruby itself runs in the template and its workers: compiler, allocator, heap, pages. It says of each what there
  # is and why, and never what there should be.
  class Runtime
    # What the kernel's merging of pages says of itself: 1 where it runs.
    MERGING = "/sys/kernel/mm/ksm/run"
    private_constant :MERGING

    # Takes over this process, from its first line on: it may run `program` again, with `options`.
    def initialize(program, *options)
      @jit = Jit.new
      @jit.run_again(program, *options)
      @allocator = Allocator.new
      @merging = "merge_pages = false"
    end

    # Once the application is loaded, before its first request.
    def loaded
      @jit.enable
    end

    # Before the first fork, once.
    def prepare_heap(compact:, roomy:)
      @heap = Heap.prepare(compact:, roomy:)
    end

    # Lets the kernel merge equal pages of this process and its workers.
    def merge_pages
      error = Native.merge_pages
      @merging = error.zero? ? ksmd : "the kernel refuses it: #{SystemCallError.new(error).message}#{advice(error)}"
    end

    # Name, value and reason of each of them, one after the other.
    def facts
      merging = ["merge_pages", Native.merges_pages? ? "on" : "off", @merging]
      [*@jit.fact, *@allocator.fact, *@heap, *merging]
    end

    private

    # Whether the kernel's thread merges what it may.
    def ksmd
      File.read(MERGING).to_i == 1 ? "the kernel's ksmd runs" : "allowed, but ksmd does not run: #{MERGING} is not 1"
    rescue SystemCallError
      "allowed, but this kernel has no #{MERGING}"
    end

    def advice(error)
      error == Errno::EPERM::Errno ? " (it may need CAP_SYS_RESOURCE)" : " (it needs Linux 6.4 with CONFIG_KSM)"
    end
  end
end
