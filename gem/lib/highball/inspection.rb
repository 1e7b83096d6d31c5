# frozen_string_literal: true

require_relative "description"
require_relative "profiler"

module Highball
  # Answers what operators ask of this worker: a profile, the backtraces of its threads, figures of its garbage
  # collector. It changes nothing. An answer is text in lines, sent in pieces, which crates/profiles reads.
  class Inspection
    # Characters of a piece: whatever they are, it fits into a control message.
    PIECE = 8192
    # The most threads whose backtraces are reported.
    MAX_THREADS = 256
    # The most frames of each, innermost first.
    MAX_FRAMES = 400
    # Bytes of a frame or of a thread's name.
    MAX_LINE_BYTES = 512

    # Text as a single line of valid UTF-8.
    def self.line(text, limit)
      text = text.byteslice(0, limit) if text.bytesize > limit
      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub.tr("\n\r", "  ")
    end

    # `runners` are the threads that run requests, by their numbers.
    def initialize(runners)
      @runners = runners
    end

    # Answers the question `id`, a profile from a thread of its own. `milliseconds` is how long that takes, `mode` which
    # time counts, see Profiler.
    def answer(id, kind, milliseconds, mode)
      case kind
      when "profile"
        thread = Thread.new { reply(id) { Profiler.new(@runners, mode).run(milliseconds) } }
        thread.name = "highball profiler"
      when "backtraces" then reply(id) { backtraces }
      when "gc" then reply(id) { garbage_collector }
      end
    end

    private

    # Sends what the block returns; an exception's class and message where it raises.
    def reply(id)
      text = begin
        yield
      rescue StandardError => error
        "error #{Inspection.line("#{error.class}: #{error.message}", MAX_LINE_BYTES)}"
      end
      pieces = text.empty? ? [""] : text.scan(/.{1,#{PIECE}}/mo)
      last = pieces.pop
      pieces.each { |piece| Native.inspected(id, piece, false) }
      Native.inspected(id, last, true)
    end

    def backtraces
      lines = Thread.list.first(MAX_THREADS).flat_map do |thread|
        frames = thread.backtrace(0, MAX_FRAMES) || []
        ["t #{Inspection.line("#{thread.status} #{name(thread)}", MAX_LINE_BYTES)}",
         *frames.map { |frame| "l #{Inspection.line(frame, MAX_LINE_BYTES)}" }]
      end
      lines.join("\n")
    end

    def name(thread)
      number = @runners.index(thread)
      return "request thread #{number}" if number

      thread == Thread.main ? "main thread" : thread.name || "thread without a name"
    end

    def garbage_collector
      GC.stat.filter_map { |key, value| "#{key} #{value}" if Integer === value && !value.negative? }.join("\n")
    end
  end
end
