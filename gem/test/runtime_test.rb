# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"

# How Ruby itself runs, as a template tells it and as workers have it.
class RuntimeTest < Minitest::Test
  SHOWS = <<~RUBY
    run ->(_) { [200, {}, [[ENV.keys.grep(/HIGHBALL_TEMPLATE|LD_PRELOAD/), GC.stat(:compact_count)].inspect]] }
  RUBY

  # What the template says, by name, and what its worker answers.
  def boot(source = SHOWS, **start)
    FakeSupervisor.open({ "config.ru" => source }, **start) do |supervisor|
      name, fields = supervisor.message
      assert_equal "Booted", name, fields.inspect
      supervisor.fork_worker
      options = fields["runtime"].to_h { |option| [option["name"], option.values_at("value", "reason")] }
      yield options, supervisor.request.body
    end
  end

  def test_a_template_says_how_ruby_runs_and_why
    variables = { "HIGHBALL_TEMPLATE_JIT" => "plain", "HIGHBALL_TEMPLATE_ALLOCATOR" => "because" }
    boot(variables:) do |options, body|
      assert_equal %w[jit allocator compact heap merge_pages], options.keys
      assert_equal ["none", "runtime = \"plain\""], options["jit"]
      assert_equal %w[system because], options["allocator"]
      assert_equal ["none", "compact = false"], options["compact"]
      assert_equal ["small", 'heap = "small"'], options["heap"]
      assert_equal ["off", "merge_pages = false"], options["merge_pages"]
      assert_equal "[[], 0]", body
    end
  end

  def test_a_library_that_was_not_loaded_is_not_claimed
    missing = "/nonexistent/libjemalloc.so.2"
    variables = { "HIGHBALL_TEMPLATE_PRELOAD" => missing, "LD_PRELOAD" => missing }
    boot(variables:) do |options, body|
      assert_equal ["system", "the dynamic linker did not load #{missing}"], options["allocator"]
      assert_match(/\A\[\[\],/, body)
    end
  end

  def test_a_preloaded_library_of_the_operator_stays_in_the_environment
    boot(variables: { "LD_PRELOAD" => "/nonexistent/mine.so" }) do |_, body|
      assert_match(/\A\[\["LD_PRELOAD"\],/, body)
    end
  end

  def test_the_heap_is_prepared_once_by_what_this_ruby_has
    boot(compact: true) do |options, body|
      expected = Process.respond_to?(:warmup) ? "Process.warmup" : "GC.compact"
      assert_equal expected, options["compact"].first
      assert_match(/, 1\]\z/, body) unless Process.respond_to?(:warmup)
    end
  end

  def test_a_roomy_heap_has_a_free_slot_for_each_object_in_the_workers_too
    source = "run ->(_) { [200, {}, [GC.stat.values_at(:heap_free_slots, :heap_available_slots).join(' ')]] }"
    boot(source, compact: true, roomy: true) do |options, body|
      assert_equal "roomy", options["heap"].first
      free, available = body.split.map(&:to_i)
      assert_operator free, :>, available * 2 / 5
      assert_operator free, :<, available * 3 / 5
    end
  end

  def test_merged_pages_are_what_the_kernel_says
    boot(merge_pages: true) do |options, _|
      value, reason = options["merge_pages"]
      assert_equal value == "on", reason.match?(/\Athe kernel's ksmd runs\z|\Aallowed, but /), reason
      assert_match(/\Athe kernel refuses it: /, reason) if value == "off"
    end
  end
end
