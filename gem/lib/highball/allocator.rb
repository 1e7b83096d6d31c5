# frozen_string_literal: true

module Highball
  # What gives this process memory. The server has chosen it by variables before Ruby started; this reads what came of
  # that, and changes only the environment.
  class Allocator
    # The library that the server has had loaded.
    PRELOADED = "HIGHBALL_TEMPLATE_PRELOAD"
    # Why, in words.
    REASON = "HIGHBALL_TEMPLATE_ALLOCATOR"
    # Allocators that stand in place of the C library's.
    LIBRARY = %r{/lib(jemalloc|tcmalloc|mimalloc)[^/]*\z}
    private_constant :LIBRARY

    # Takes the server's variables out of the environment: programs that the application starts have the allocator
    # that they would have without the server.
    def initialize
      @reason = ENV.delete(REASON) || "the server has chosen none"
      @preloaded = ENV.delete(PRELOADED)
      ENV.delete("LD_PRELOAD") if @preloaded && ENV["LD_PRELOAD"] == @preloaded
    end

    # What there is, and why.
    def fact
      name = mapped
      reason = @preloaded && name != "jemalloc" ? "the dynamic linker did not load #{@preloaded}" : @reason
      ["allocator", name, reason]
    end

    private

    # The library that is mapped.
    def mapped
      File.foreach("/proc/self/maps") do |line|
        name = line.chomp[LIBRARY, 1]
        return name if name
      end
      "system"
    rescue SystemCallError
      "unknown"
    end
  end
end
