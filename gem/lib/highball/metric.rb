# frozen_string_literal: true

module Highball
  # One of the application's metrics: its name, what it says, and its series in this process. `Metrics` makes it, and
  # holds the lock.
  class Metric
    # Names by Prometheus' rules, without the colon, which is for rules of the monitoring.
    NAME = /\A(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,99}\z/
    # Names of labels.
    LABEL = /\A(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,63}\z/
    # Ends of names that stand for parts of counters and histograms.
    RESERVED_END = /_(?:total|bucket|sum|count|created)\z/
    # Labels that the server or a histogram adds.
    RESERVED_LABELS = %i[application le quantile].freeze
    # The most labels of a metric.
    MAX_LABELS = 8
    # The longest value of a label and the longest text that explains a metric, in characters. The rest is cut off.
    MAX_CHARACTERS = 100
    # Series that are found by the very labels that were given.
    MAX_KNOWN = 1_000

    # The values under one combination of labels.
    class Series
      attr_reader :metric, :labels
      # What has been counted since the server was told, the value of a gauge, or what a histogram's values add up to.
      attr_accessor :value
      # Values of a histogram by their bucket.
      attr_accessor :counts
      # Whether it is among those that are to be told.
      attr_accessor :changed

      def initialize(metric, labels)
        @metric = metric
        @labels = labels
        @value = 0.0
      end

      # Adds without ever becoming infinite.
      def add(amount)
        @value = (@value + amount).clamp(-Float::MAX, Float::MAX)
      end

      # About how many bytes of a message it takes, at most.
      def bytes
        @bytes ||= JSON.generate(@labels).bytesize + 60 + (20 * counts.to_a.size)
      end

      # What the server is to be told.
      def update
        @metric.update(self)
      end

      # The server was told.
      def told
        @changed = false
        @metric.reset(self)
      end
    end

    attr_reader :name, :description

    def initialize(metrics, name, help, labels, option)
      @metrics = metrics
      @name = name
      @option = option
      @labels = labels
      check_names
      help = help.nil? || help.empty? ? name.tr("_", " ") : text(help)
      @description = { name:, kind:, help:, **options }.freeze
      forget_series
    end

    # How many bytes of a message its description takes, with its keys.
    def bytes
      @bytes ||= JSON.generate(@description).bytesize + 20
    end

    # Whether another one is defined in the same way.
    def same?(other)
      other.signature == signature
    end

    # A metric without labels has a value from the start: a rate can be had from its first change on.
    def begin
      @metrics.change(self, {}) { nil } if @labels.empty?
    end

    # For the errors of another metric with this name.
    def to_s
      "#{kind} with labels #{@labels.inspect}"
    end

    # What follows is for `Metrics`, which holds its lock.

    # The series that was found by these labels before.
    def known(labels)
      @known[labels]
    end

    # The values of these labels as text. Raises ArgumentError where they are not the metric's.
    def values(labels)
      unless labels.size == @labels.size && @labels.all? { |name| labels.key?(name) }
        raise ArgumentError, "metric #{@name}: labels #{labels.keys.inspect}, and it has #{@labels.inspect}"
      end

      @labels.map { |name| text(labels[name]) }
    end

    # The series with these values of its labels.
    def find(values)
      @series[values]
    end

    # The series with these values, made where it is not there; found by these labels from now on.
    def keep(labels, values)
      series = @series[values] ||= start(Series.new(self, @labels.zip(values)))
      if @known.size < MAX_KNOWN && labels.each_value.all? { |value| plain?(value) }
        @known[labels.transform_values { |value| value.is_a?(String) ? value.dup.freeze : value }] = series
      end
      series
    end

    # Forgets all series: those of the process that this one was forked from.
    def forget_series
      @series = {}
      @known = {}
    end

    # What the server is to be told of a series.
    def update(series)
      { labels: series.labels, value: series.value }
    end

    # The server was told what a series has come to.
    def reset(series)
      series.value = 0.0
    end

    protected

    def signature
      [self.class.name, @labels, @option]
    end

    private

    def kind
      self.class.name[/\w+\z/].downcase
    end

    def options
      {}
    end

    def start(series)
      series
    end

    # The amount as a number that can be counted.
    def number(amount)
      value = amount.is_a?(Numeric) ? amount.to_f : Float::NAN
      return value if value.finite?

      raise ArgumentError, "metric #{@name}: #{amount.inspect} is no finite number"
    end

    # Whether a value of a label stays the same, and is small.
    def plain?(value)
      case value
      when String then value.size <= MAX_CHARACTERS
      when Symbol, Integer, true, false, nil then true
      end
    end

    def text(value)
      text = Description.utf8(value.to_s)
      text.size > MAX_CHARACTERS ? text[0, MAX_CHARACTERS] : text
    end

    def check_names
      unless NAME.match?(@name) && !@name.start_with?("highball_") && !RESERVED_END.match?(@name)
        raise ArgumentError, "#{@name.inspect} can't be the name of a metric: use letters, digits and _, " \
                             "not highball_ at its start, nor _total, _bucket, _sum, _count or _created at its end"
      end
      raise ArgumentError, "metric #{@name}: more than #{MAX_LABELS} labels" if @labels.size > MAX_LABELS

      bad = @labels.find { |label| !LABEL.match?(label) || RESERVED_LABELS.include?(label) || @labels.count(label) > 1 }
      raise ArgumentError, "metric #{@name}: #{bad.inspect} can't be the name of a label" if bad
    end
  end

  # A number that only grows.
  class Counter < Metric
    # Counts so many, at least 0.
    def add(amount = 1, **labels)
      amount = number(amount)
      raise ArgumentError, "metric #{@name}: a counter can't get smaller" if amount.negative?

      @metrics.change(self, labels) { |series| series.add(amount) }
    end
    alias increment add
  end

  # A number that goes up and down, of this process.
  class Gauge < Metric
    # What the gauges of several processes are together.
    AGGREGATES = %i[sum max min latest].freeze

    # Sets it.
    def set(value, **labels)
      value = number(value)
      @metrics.change(self, labels) { |series| series.value = value }
    end

    # Makes it larger.
    def add(amount = 1, **labels)
      amount = number(amount)
      @metrics.change(self, labels) { |series| series.add(amount) }
    end

    # Makes it smaller.
    def subtract(amount = 1, **labels)
      add(-number(amount), **labels)
    end

    # Nothing has a value before the process sets it.
    def begin; end

    # It keeps its value.
    def reset(_series); end

    private

    def options
      { aggregate: @option }
    end
  end

  # Values by their size.
  class Histogram < Metric
    # The upper bounds that OpenTelemetry advises for durations, in seconds.
    BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10].freeze
    # The most bounds.
    MAX_BUCKETS = 30

    # The bounds as numbers. Raises ArgumentError where they do not rise.
    def self.bounds(buckets)
      bounds = buckets.map(&:to_f)
      rise = bounds.all?(&:finite?) && bounds.each_cons(2).all? { |lower, upper| lower < upper }
      return bounds.freeze if rise && bounds.size.between?(1, MAX_BUCKETS)

      raise ArgumentError, "buckets are 1 to #{MAX_BUCKETS} numbers that rise, not #{buckets.inspect}"
    end

    # Takes a value in.
    def observe(value, **labels)
      value = number(value)
      @metrics.change(self, labels) do |series|
        series.add(value)
        series.counts[@option.bsearch_index { |bound| value <= bound } || @option.size] += 1
      end
    end

    # Takes in how long the block takes, in seconds. Returns what the block does.
    def time(**labels)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      begin
        yield
      ensure
        observe(Process.clock_gettime(Process::CLOCK_MONOTONIC) - began, **labels)
      end
    end

    def update(series)
      { labels: series.labels, sum: series.value, counts: series.counts }
    end

    def reset(series)
      super
      series.counts.fill(0)
    end

    private

    def options
      { buckets: @option }
    end

    def start(series)
      series.counts = Array.new(@option.size + 1, 0)
      series
    end
  end
end
