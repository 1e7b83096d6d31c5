# frozen_string_literal: true

require "json"

module Highball
  # What `highball init --from config/puma.rb` runs: evaluates the configuration of Puma or Unicorn, which is Ruby, and
  # prints its calls as JSON. It knows no server: what a call means is decided by the program that reads this. It never
  # runs a block that the configuration passes.
  class Recorder
    # The most calls that are recorded, the depth of their arguments, and the characters of each.
    MAX_CALLS = 1000
    MAX_DEPTH = 4
    MAX_CHARACTERS = 1000

    attr_reader :calls

    def initialize(path)
      @path = path
      @calls = []
    end

    def respond_to_missing?(_name, _include_private = false)
      true
    end

    # Every method that the configuration calls and that Ruby itself does not have.
    def method_missing(name, *arguments, **options, &block)
      raise "the file makes more than #{MAX_CALLS} calls" if @calls.size >= MAX_CALLS

      arguments << options unless options.empty?
      arguments = arguments.map { |argument| plain(argument) }
      @calls << { name: name.to_s, arguments:, line:, block: !block.nil? }
      nil
    end

    private

    def line
      caller_locations.find { |location| location.path == @path }&.lineno
    end

    # The value as JSON can have it.
    def plain(value, depth = 0)
      case value
      when nil, true, false, Integer, Float then value
      when Array then depth < MAX_DEPTH ? value.map { |item| plain(item, depth + 1) } : "..."
      when Hash then depth < MAX_DEPTH ? value.to_h { |key, item| [text(key), plain(item, depth + 1)] } : "..."
      when String, Symbol then text(value)
      else text(value.inspect)
      end
    end

    def text(value)
      value.to_s[0, MAX_CHARACTERS].encode("UTF-8", invalid: :replace, undef: :replace).scrub
    end
  end
end

# Outside of the module, so that the file's constants are those of any Ruby program. What it prints is no answer.
if $PROGRAM_NAME == __FILE__
  answer = $stdout.dup
  $stdout.reopen($stderr)
  path = File.expand_path(ARGV.fetch(0))
  recorder = Highball::Recorder.new(path)
  begin
    recorder.instance_eval(File.read(path), path, 1)
    answer.write(JSON.generate(calls: recorder.calls))
  rescue StandardError, ScriptError => error
    place = error.backtrace_locations&.find { |location| location.path == path }
    place = place ? "#{path}:#{place.lineno}" : path
    answer.write(JSON.generate(failure: "#{place}: #{error.message} (#{error.class})"[0, 4000].scrub))
  end
  answer.flush
end
