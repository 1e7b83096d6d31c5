# frozen_string_literal: true

module Highball
  # Work between requests: once in so many of a worker's, and major collections of garbage when they are due. All its
  # threads share one of these.
  #
  # The exchange says whether it is this worker's turn: never while requests wait, or another of its threads has one.
  class OutOfBand
    # `interval` is nil where there is no work but collections, `major_collections` where Ruby decides about these.
    def initialize(interval, major_collections = nil, &work)
      @interval = interval
      @major_collections = major_collections
      @work = work
      @count = 0
    end

    # Counts a request whose response is out, and does the work where it is due and this worker's turn. Where it is
    # not its turn, the next request is the next try.
    def after_request(worker_thread)
      # Two threads at once may count as one: it is no exact number.
      @count += 1
      work_due = @interval && @count >= @interval
      return unless (work_due || @major_collections&.due?) && worker_thread.begin_out_of_band

      begin
        work_due ? work : @major_collections.collect
      ensure
        worker_thread.end_out_of_band
      end
    end

    private

    def work
      @count = 0
      @work.call
    end
  end
end
