# frozen_string_literal: true

# Loaded in every process that loads the gem: what reports exceptions is loaded in workers alone.
module Highball
  # Reports an exception that the application rescued, with what `context` says of it (a Hash), as if it had been
  # raised: it is grouped, kept and told. For code that runs in the thread of a request.
  #
  # Returns whether it was reported. It is not in a process that is no worker of Highball (console, rake, tests, other
  # servers), outside of a request, where it is ignored, or where this request has reported it before.
  def self.report(error, context = nil)
    raise ArgumentError, "not an exception: #{error.class}" unless error.is_a?(Exception)

    reporter = Thread.current.thread_variable_get(:highball_exceptions)
    return false if reporter.nil? || Native.child?

    reporter.report(error, handled: true, context:)
  end

  # Calls the block with each exception before it is reported. Its report may be changed:
  #
  #   Highball.on_exception do |report|
  #     report.context[:tenant] = Tenant.current&.id
  #     report.fingerprint = "payment" if report.error.is_a?(PaymentError)
  #     report.drop if report.message.include?("maintenance")
  #   end
  def self.on_exception(&block)
    raise ArgumentError, "on_exception needs a block" unless block

    ExceptionHooks.add(block)
  end

  # The blocks of `on_exception`, in the order in which they were given.
  module ExceptionHooks
    # An application may load another copy of this file.
    @blocks ||= []

    class << self
      def add(block)
        @blocks << block
      end

      # Yields what a block raises; the others are called all the same.
      def call(report)
        @blocks.each do |block|
          block.call(report)
        rescue Exception => error # rubocop:disable Lint/RescueException -- it must not replace the application's response
          raise if Native.child? || SignalException === error

          yield error
        end
      end
    end
  end
end
