# frozen_string_literal: true

require "json"
require_relative "code_frames"
require_relative "description"
require_relative "request_details"

module Highball
  # What is reported of one exception: a text of bounded length. What the exception and the request say of themselves is
  # the application's code, which may raise; Exceptions takes care of that.
  class ExceptionReport
    # The most bytes of a report.
    MAX_BYTES = 32 * 1024
    # The most bytes of a message.
    MESSAGE_BYTES = 2048
    # The most lines of a backtrace, innermost first.
    LINES = 60
    # The most causes, and the most lines of the backtrace of each.
    CAUSES = 5
    CAUSE_LINES = 10

    # The exception, and the env of its request.
    attr_reader :error, :env
    # What the application says of it: a Hash.
    attr_accessor :context
    # A text by which it is grouped, in place of class, code and cause.
    attr_accessor :fingerprint
    # Its message.
    attr_accessor :message

    def initialize(error, env, code_frames:, context: nil, handled: false)
      @error = error
      @env = env
      @code_frames = code_frames
      @context = context ? context.to_h.dup : {}
      @handled = handled
      @message = short(Description.message(error), MESSAGE_BYTES)
      @dropped = false
    end

    # Has it not be reported.
    def drop
      @dropped = true
    end

    def dropped?
      @dropped
    end

    # The report as JSON. What is too much is left out, the least important first.
    def generate(release:, details:)
      report = {
        **describe(@error, @message, LINES),
        causes:,
        fingerprint: @fingerprint&.to_s,
        route: details.route(@env),
        parameters: details.parameters(@env),
        headers: details.headers(@env),
        context: details.filtered(@context),
        release:,
        handled: @handled
      }
      %i[context parameters causes backtrace].each do |name|
        text = JSON.generate(report)
        return text if text.bytesize <= MAX_BYTES

        report.delete(name)
      end
      JSON.generate(report)
    end

    private

    def describe(error, message, lines)
      backtrace = Description.backtrace(error)
      {
        class: @code_frames.without_addresses(Description.class_name(error)),
        message: short(message, MESSAGE_BYTES),
        frame: @code_frames.first(backtrace),
        backtrace: backtrace.first(lines).map { |line| @code_frames.relative(line) }
      }
    end

    def causes
      causes = []
      error = Description.cause(@error)
      while Exception === error && causes.size < CAUSES && !error.equal?(@error)
        causes << describe(error, Description.message(error), CAUSE_LINES)
        error = Description.cause(error)
      end
      causes
    end

    def short(text, bytes)
      text = Description.utf8(text.to_s)
      text.bytesize > bytes ? "#{text.byteslice(0, bytes).scrub("")}..." : text
    end
  end
end
