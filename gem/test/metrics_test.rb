# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "highball/metrics"
require "timeout"

# Highball.metrics: what a template and its workers tell the server, and what every other process makes of it.
class MetricsTest < Minitest::Test
  APP = <<~'RUBY'
    ORDERS = Highball.metrics.counter("orders", "Orders placed", labels: [:kind])
    BOOTS = Highball.metrics.counter("boots")
    CARTS = Highball.metrics.gauge("carts", aggregate: :max)
    IMPORT = Highball.metrics.histogram("import_seconds", "Imports", buckets: [0.5, 1])
    BOOTS.add
    run lambda { |env|
      result =
        begin
          eval(env["QUERY_STRING"])
        rescue StandardError => error
          error.class
        end
      [200, {}, [result.inspect]]
    }
  RUBY

  def serve(app = APP, **start)
    FakeSupervisor.open({ "config.ru" => app }, **start) do |supervisor|
      assert_equal "Booted", supervisor.message.first
      @template = template_counts(supervisor)
      supervisor.fork_worker
      yield supervisor
    end
  end

  # What the template says first.
  def template_counts(supervisor)
    name, fields = supervisor.message
    assert_equal "Counts", name
    series(fields["batch"])
  end

  # The series in a message: their metric and labels, and what is said of them.
  def series(message)
    JSON.parse(message).fetch("metrics").flat_map do |metric|
      metric["series"].map { |one| [metric["name"], one["labels"], one["value"] || one.values_at("sum", "counts")] }
    end
  end

  # What comes with the response to a request that runs this code.
  def count(supervisor, code)
    answer = supervisor.request(query: code)
    answer.frames.flat_map { |kind, payload| kind == :counts ? series(payload) : [] }
  end

  # What the worker's thread beside requests says.
  def told(supervisor)
    name, fields = supervisor.worker_message
    assert_equal "Counts", name
    series(fields["batch"])
  end

  def test_what_a_request_counts_comes_with_its_response_and_once
    serve do |supervisor|
      code = "3.times { ORDERS.add(2, kind: 'web') }; ORDERS.increment(kind: :api); CARTS.set(4); CARTS.subtract; " \
             "IMPORT.observe(0.5); IMPORT.observe(7); IMPORT.time { 8 }"
      expected = [["orders", [%w[kind web]], 6.0], ["orders", [%w[kind api]], 1.0], ["carts", [], 3.0]]
      counted = count(supervisor, code)
      assert_equal expected, counted.first(3)
      name, labels, (sum, counts) = counted.last
      assert_equal ["import_seconds", [], [2, 0, 1]], [name, labels, counts]
      assert_operator sum, :>=, 7.5
      assert_empty count(supervisor, "1")
      assert_equal [["orders", [%w[kind web]], 1.0]], count(supervisor, "ORDERS.add(kind: 'web')")
    end
  end

  def test_a_request_that_fails_has_counted
    serve do |supervisor|
      answer = supervisor.request(query: "ORDERS.add(kind: 'web'); raise SystemStackError")
      assert_equal %i[counts error], answer.kinds
    end
  end

  def test_what_the_template_counts_is_told_once_and_by_no_worker
    serve do |supervisor|
      # Each has a value from the start that has no labels.
      assert_equal [["boots", [], 1.0], ["import_seconds", [], [0.0, [0, 0, 0]]]], @template
      assert_equal [["boots", [], 1.0]], count(supervisor, "BOOTS.add")
      supervisor.fork_worker(1)
    end
  end

  def test_other_threads_and_what_follows_a_response_are_told_within_a_second
    serve do |supervisor|
      job = "Thread.new { ORDERS.add(kind: 'job') }.join"
      assert_empty count(supervisor, "env['rack.after_reply'] << -> { #{job}; ORDERS.add(kind: 'after') }; 1")
      assert_equal [["orders", [%w[kind job]], 1.0], ["orders", [%w[kind after]], 1.0]], told(supervisor)
    end
  end

  def test_a_worker_that_ends_has_told_all
    hooks = "before_worker_exit { ORDERS.add(kind: 'last') }"
    FakeSupervisor.open({ "config.ru" => APP, "hooks.rb" => hooks }) do |supervisor|
      supervisor.message
      supervisor.message
      pid = supervisor.fork_worker
      Process.kill("TERM", pid)
      assert_equal [["orders", [%w[kind last]], 1.0]], told(supervisor)
      assert_nil supervisor.worker_message
    end
  end

  def test_threads_lose_no_count
    serve do |supervisor|
      code = "8.times.map { Thread.new { 5000.times { ORDERS.add(kind: 'web') } } }.each(&:join)"
      counted = count(supervisor, code)
      counted += told(supervisor) while counted.sum(&:last) < 40_000
      assert_in_delta 40_000, counted.sum(&:last)
    end
  end

  def test_a_process_that_the_application_forks_counts_nothing
    serve do |supervisor|
      fork = "Process.wait(fork { ORDERS.add(kind: 'child'); exit!(0) }); $?.exitstatus"
      answer = supervisor.request(query: "#{fork}; ORDERS.add(kind: 'web')")
      assert_equal [["orders", [%w[kind web]], 1.0]], series(answer.frames.assoc(:counts).last)
    end
  end

  def test_more_series_than_there_is_room_for_are_counted_as_dropped
    serve do |supervisor|
      answer = supervisor.request(query: "1100.times { |id| ORDERS.add(kind: id) }; 1")
      messages = answer.frames.filter_map { |kind, payload| payload if kind == :counts }
      assert_operator messages.size, :<=, 4
      messages << supervisor.worker_message.last["batch"] while messages.sum { |one| series(one).size } < 1000
      assert_equal(100, messages.sum { |one| JSON.parse(one)["dropped"] })
      assert messages.all? { |one| one.bytesize < 24_000 }, messages.map(&:bytesize).inspect
    end
  end

  def test_values_of_labels_are_short_text
    serve do |supervisor|
      code = "ORDERS.add(kind: 'x' * 200); ORDERS.add(kind: nil); ORDERS.add(kind: \"\\xFF\".b)"
      values = count(supervisor, code).map { |_, labels, _| labels.first.last }
      assert_equal ["x" * 100, "", "\\xFF"], values
    end
  end

  def test_a_label_that_changes_later_changes_no_series
    serve do |supervisor|
      code = "kind = +'a'; ORDERS.add(kind: kind); kind << 'b'; ORDERS.add(kind: kind); ORDERS.add(kind: 'a')"
      assert_equal [["orders", [%w[kind a]], 2.0], ["orders", [%w[kind ab]], 1.0]], count(supervisor, code)
    end
  end

  def test_an_application_that_counts_nothing_tells_nothing
    app = "run ->(_) { [200, {}, [Thread.list.map(&:name).inspect]] }"
    FakeSupervisor.open({ "config.ru" => app }) do |supervisor|
      supervisor.message
      supervisor.fork_worker
      answer = supervisor.request
      refute_includes answer.kinds, :counts
      refute_includes answer.body, "highball metrics"
    end
  end

  def test_counting_allocates_nothing_but_the_labels
    serve do |supervisor|
      code = "count = -> { before = GC.stat(:total_allocated_objects); 100.times { ORDERS.add(2, kind: 'a') }; " \
             "GC.stat(:total_allocated_objects) - before }; count.call; count.call"
      allocated = Integer(supervisor.request(query: code).body)
      # A Hash and a String for each call, and whatever GC.stat itself wants.
      assert_operator allocated, :<, 320
    end
  end

  # Outside of Highball, as here.

  def setup
    @metrics = Highball::Metrics.new
  end

  def test_outside_of_highball_the_calls_work_and_count_nothing
    counter = @metrics.counter("orders_total", labels: ["kind"])
    counter.add(kind: "a")
    @metrics.gauge("g").set(3)
    assert_equal 5, (@metrics.histogram("h_seconds").time { 5 })
    refute @metrics.changed?
    @metrics.tell { flunk }
  end

  def test_the_same_metric_may_be_registered_again_and_another_may_not
    counter = @metrics.counter("orders", labels: [:kind])
    assert_same counter, @metrics.counter("orders_total", "Orders", labels: [:kind])
    assert_raises(ArgumentError) { @metrics.counter("orders") }
    assert_raises(ArgumentError) { @metrics.gauge("orders", labels: [:kind]) }
    @metrics.histogram("h", buckets: [1])
    assert_raises(ArgumentError) { @metrics.histogram("h", buckets: [2]) }
    98.times { |number| @metrics.counter("m#{number}") }
    assert_raises(ArgumentError) { @metrics.counter("one_more") }
  end

  def test_mistakes_are_mistakes_everywhere
    ["", "1a", "a-b", "a b", "a:b", "__a", "highball_a", "a_bucket", "a_count", "a\nb", "a" * 101].each do |name|
      assert_raises(ArgumentError, name) { @metrics.gauge(name) }
    end
    [[:le], [:application], [:__a], [:"a-b"], %i[a a], (1..9).map { |number| :"l#{number}" }].each do |labels|
      assert_raises(ArgumentError, labels.inspect) { @metrics.gauge("labels", labels:) }
    end
    [[], [2, 1], [1, 1], [Float::INFINITY], (1..31).to_a].each do |buckets|
      assert_raises(ArgumentError, buckets.inspect) { @metrics.histogram("buckets", buckets:) }
    end
    counter = @metrics.counter("counter", labels: [:a])
    [-1, Float::NAN, Float::INFINITY, "1", nil].each do |amount|
      assert_raises(ArgumentError, amount.inspect) { counter.add(amount, a: 1) }
    end
    [{}, { b: 1 }, { a: 1, b: 1 }].each { |labels| assert_raises(ArgumentError) { counter.add(1, **labels) } }
    assert_raises(ArgumentError) { @metrics.gauge("gauge", aggregate: :mean) }
  end
end
