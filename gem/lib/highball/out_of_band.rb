# frozen_string_literal: true

module Highball
  # Work between requests, once in so many of a worker's. All its threads share one of these.
  #
  # The exchange says whether it is this worker's turn: never while requests wait, or another of its threads has one.
  class OutOfBand
    def initialize(interval, &work)
      @interval = interval
      @work = work
      @count = 0
    end

    # Counts a request whose response is out, and does the work where it is due and this worker's turn. Where it is
    # not its turn, the next request is the next try.
    def after_request(worker_thread)
      # Two threads at once may count as one: it is no exact number.
      @count += 1
      return if @count < @interval || !worker_thread.begin_out_of_band

      begin
        @count = 0
        @work.call
      ensure
        worker_thread.end_out_of_band
      end
    end
  end
end
