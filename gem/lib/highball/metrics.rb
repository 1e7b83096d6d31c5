# frozen_string_literal: true

require_relative "errors"
require_relative "metric"

# Loaded in every process that loads the gem: what is counted is told by the template and by workers alone.
module Highball
  # The application's own metrics, which the server shows with its own:
  #
  #   ORDERS = Highball.metrics.counter("orders", "Orders placed", labels: [:kind])
  #   ORDERS.add(1, kind: "web")
  #
  # In every process that is no worker of Highball (console, rake, tests, other servers, processes that the application
  # forks) they can be used just so, and count nothing.
  def self.metrics
    @metrics
  end

  # The metrics of this process, and what it has counted that the server has not been told.
  class Metrics
    # The most metrics of an application.
    MAX_METRICS = 100
    # The most series of a process. The server has the same bound for all processes together.
    MAX_SERIES = 1_000
    # About how long a message is at most, in bytes.
    MESSAGE_BYTES = 20_000
    # The most messages that go with one response.
    MESSAGES_OF_REQUEST = 4
    # How often a worker tells what no response has told, in seconds.
    INTERVAL = 1

    def initialize
      @lock = Mutex.new
      @metrics = {}
      @series = 0
      @dropped = 0
      @changed = []
      @awaited = Queue.new
      @is_awaited = false
      @sender = nil
    end

    # A number that only grows; its name is shown with `_total`.
    def counter(name, help = nil, labels: [])
      register(Counter, name.to_s.delete_suffix("_total"), help, labels, nil)
    end

    # A number that goes up and down. Each process has its own: `aggregate` says what they are together (`:sum`, `:max`,
    # `:min`, or `:latest`).
    def gauge(name, help = nil, labels: [], aggregate: :sum)
      unless Gauge::AGGREGATES.include?(aggregate)
        raise ArgumentError, "aggregate is #{aggregate.inspect}, and may be one of #{Gauge::AGGREGATES.inspect}"
      end

      register(Gauge, name.to_s, help, labels, aggregate)
    end

    # Values by their size. `buckets` are upper bounds, and rise; without them those that OpenTelemetry advises for
    # seconds.
    def histogram(name, help = nil, labels: [], buckets: Histogram::BUCKETS)
      register(Histogram, name.to_s, help, labels, Histogram.bounds(buckets))
    end

    # Whether there is something to tell.
    def changed?
      !@changed.empty?
    end

    # Tells the server with the response of the request that this thread runs.
    def tell_with(worker_thread)
      tell(MESSAGES_OF_REQUEST) { |message| worker_thread.count(message) }
    end

    # Tells the server in messages: yields each one, until one was not sent. What was not told is told later.
    def tell(most = nil)
      @lock.synchronize do
        until @changed.empty? && @dropped.zero?
          return if most && (most -= 1).negative?

          told, message = next_message
          return unless yield(message)

          told.each(&:told)
          @changed.shift(told.size)
          @dropped = 0
        end
      end
    end

    # The thread that tells what no response has told, if there is one.
    attr_reader :sender

    # This process is a template: what is counted is told by `Forker`. What the worker has counted that it was forked
    # from, if it was, is that one's to tell.
    def enter_template
      forget if @is_worker
      @is_worker = false
      @is_told = true
    end

    # This process is a worker: it has counted nothing so far, for what it was forked with is the template's to tell.
    def enter_worker
      forget
      @is_worker = true
    end

    # Changes the series of a metric under these labels; the block does it. Where nothing is told it only checks the
    # labels. For `Metric`.
    def change(metric, labels)
      unless @is_told && !Native.child?
        metric.values(labels)
        return
      end

      @lock.synchronize do
        series = metric.known(labels) || series(metric, labels)
        if series
          mark(series)
          yield series
        end
      end
      nil
    end

    private

    def forget
      @lock.synchronize do
        @changed = []
        @series = @dropped = 0
        @metrics.each_value(&:forget_series)
        @sender = nil
        @is_awaited = false
      end
      @awaited = Queue.new
    end

    def register(kind, name, help, labels, option)
      labels = labels.map(&:to_sym)
      made = kind.new(self, name, help, labels, option)
      metric = @lock.synchronize do
        known = @metrics[name]
        raise ArgumentError, "metric #{name}: is a #{known} already" if known && !known.same?(made)

        known || add(made)
      end
      metric.begin if metric.equal?(made)
      metric
    end

    def add(metric)
      raise ArgumentError, "metric #{metric.name}: there are #{MAX_METRICS} already" if @metrics.size >= MAX_METRICS

      @metrics[metric.name] = metric
    end

    # The series under labels that are not known yet, made where there is room.
    def series(metric, labels)
      values = metric.values(labels)
      unless metric.find(values)
        if @series >= MAX_SERIES
          @dropped += 1
          return
        end
        @series += 1
      end
      metric.keep(labels, values)
    end

    # Has it told, with the next response or within a second.
    def mark(series)
      return if series.changed

      series.changed = true
      @changed << series
      return if @is_awaited || !@is_worker

      @is_awaited = true
      @sender = start_sender unless @sender&.alive?
      @awaited << true
    end

    # A thread that tells what no response has told: of work beside requests, and of what follows a response.
    def start_sender
      thread = Thread.new do
        while @awaited.pop
          sleep INTERVAL
          @is_awaited = false
          tell { |message| Native.count(message) }
          wait_again if changed?
        end
      end
      thread.name = "highball metrics"
      thread.report_on_exception = false
      thread
    end

    # The server's socket had no room.
    def wait_again
      @is_awaited = true
      @awaited << true
    end

    # The series that are told in the next message, and the message.
    def next_message
      # Only now: an application may want another version of this gem.
      require "json"
      told = fitting
      metrics = told.group_by(&:metric).map do |metric, series|
        { **metric.description, series: series.map(&:update) }
      end
      [told, JSON.generate({ dropped: @dropped, metrics: })]
    end

    # The first of the changed series, as many as fit into one message.
    def fitting
      bytes = 0
      described = {}
      @changed.take_while do |series|
        bytes += series.metric.bytes unless described[series.metric]
        described[series.metric] = true
        (bytes += series.bytes) <= MESSAGE_BYTES
      end
    end
  end

  # An application may load another copy of this file.
  @metrics ||= Metrics.new
end
