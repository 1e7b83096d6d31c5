# frozen_string_literal: true

module Highball
  # `env["highball.io_bound"]`, also under Puma's name for it: called by a request that only waits from then on, such as
  # for another service. Its worker may take one request more meanwhile, where `threads` is a range and a thread of it
  # rests.
  module IoBound
    VARIABLE = :highball_worker_thread
    private_constant :VARIABLE

    class << self
      # The requests of this Ruby thread are those of `worker_thread`.
      def enter(worker_thread)
        Thread.current.thread_variable_set(VARIABLE, worker_thread)
      end

      # Does nothing the second time in a request, and in a thread that runs none.
      def call
        Thread.current.thread_variable_get(VARIABLE)&.begin_io
        nil
      end
    end
  end
end
