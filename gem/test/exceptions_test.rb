# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "timeout"
require "highball/exception_reporter"

# What a worker reports of exceptions.
class ExceptionsTest < Minitest::Test
  HIGHBALL = File.expand_path("../lib/highball", __dir__)
  RULES = { ignore: [], filter: %w[passw token], release: nil }.freeze

  def serve(config, files = {}, rules = {}, **start)
    files = { "config.ru" => config, **files }
    FakeSupervisor.open(files, exceptions: { **RULES, **rules }, **start) do |supervisor|
      assert_equal "Booted", supervisor.message.first
      supervisor.fork_worker
      yield supervisor
    end
  end

  def reports(answer)
    answer.frames.filter_map { |kind, payload| JSON.parse(payload) if kind == :exception }
  end

  def report(supervisor, ...)
    reports = reports(supervisor.request(...))
    assert_equal 1, reports.size
    reports.first
  end

  RAISES = <<~RUBY
    require_relative "shop"
    run lambda { |env|
      Shop.new.sell(env["QUERY_STRING"])
    }
  RUBY

  SHOP = <<~RUBY
    class Shop
      def sell(what)
        [what].each { |one| check(one) }
      rescue KeyError
        raise ArgumentError, "no \#{what}"
      end

      private

      def check(one)
        {}.fetch(one)
      end
    end
  RUBY

  def test_a_raised_exception_is_reported_with_its_cause_and_place
    serve(RAISES, { "shop.rb" => SHOP, "REVISION" => "abc123\n" }) do |supervisor|
      answer = supervisor.request
      assert_equal %i[exception error], answer.kinds
      report = reports(answer).first
      assert_equal ["ArgumentError", "no ", "shop.rb:sell"], report.values_at("class", "message", "frame")
      assert_equal "abc123", report["release"]
      assert_match(/\Ashop\.rb:5:in /, report["backtrace"].first)
      cause = report["causes"].first
      assert_equal ["KeyError", "shop.rb:check"], cause.values_at("class", "frame")
      refute report["handled"]
    end
  end

  def test_nothing_is_reported_where_nothing_is_raised_or_it_is_switched_off
    serve("run ->(_) { [404, {}, ['none']] }") { |supervisor| assert_empty reports(supervisor.request) }
    files = { "config.ru" => "run ->(_) { raise 'x' }" }
    FakeSupervisor.open(files) do |supervisor|
      supervisor.message
      supervisor.fork_worker
      assert_equal %i[error], supervisor.request.kinds
    end
  end

  def test_an_exception_that_the_framework_answered_is_reported
    config = <<~RUBY
      run lambda { |env|
        begin
          raise IOError, "rendered"
        rescue IOError => error
          env["action_dispatch.exception"] = error
        end
        env["action_dispatch.request.path_parameters"] = { controller: "orders", action: "show" }
        [500, {}, ["sorry"]]
      }
    RUBY
    serve(config) do |supervisor|
      answer = supervisor.request
      assert_equal [500, "sorry"], [answer.status, answer.body]
      report = reports(answer).first
      assert_equal ["IOError", "orders#show"], report.values_at("class", "route")
    end
  end

  def test_an_ignored_class_and_those_below_it_are_not_reported
    config = <<~RUBY
      module Gone; class Base < StandardError; end; class Below < Base; end; end
      run ->(env) { raise env["QUERY_STRING"] == "" ? Gone::Below : "other" }
    RUBY
    serve(config, {}, { ignore: ["Gone::Base"] }) do |supervisor|
      assert_equal %i[error], supervisor.request.kinds
    end
    serve("module Sinatra; NotFound = Class.new(StandardError); end\nrun ->(_) { raise Sinatra::NotFound }", {},
          { ignore: %w[default Other] }) { |supervisor| assert_equal %i[error], supervisor.request.kinds }
    serve(config, {}, { ignore: ["Gone"] }) { |supervisor| report(supervisor) }
  end

  def test_a_rescued_exception_is_reported_once_with_its_context
    config = <<~RUBY
      require "#{HIGHBALL}"
      run lambda { |_|
        error = RuntimeError.new("rescued")
        said = [Highball.report(error, order: 7, token: "t"), Highball.report(error)]
        said << Thread.new { Highball.report(error) }.value
        [200, {}, [said.inspect]]
      }
    RUBY
    serve(config) do |supervisor|
      answer = supervisor.request
      assert_equal "[true, false, false]", answer.body
      report = reports(answer).first
      assert report["handled"]
      assert_equal({ "order" => 7, "token" => "[FILTERED]" }, report["context"])
    end
  end

  def test_one_request_reports_at_most_five_exceptions
    config = <<~RUBY
      require "#{HIGHBALL}"
      run ->(_) { [200, {}, [Array.new(9) { Highball.report(RuntimeError.new) }.count(true).to_s]] }
    RUBY
    serve(config) { |supervisor| 2.times { assert_equal "5", supervisor.request.body } }
  end

  def test_a_hook_may_change_a_report_or_drop_it
    config = <<~RUBY
      require "#{HIGHBALL}"
      Highball.on_exception { |_| raise "the hook is wrong" }
      Highball.on_exception do |report|
        report.fingerprint = "mine"
        report.context[:who] = report.error.class.name
        report.message = "hidden"
        report.drop if report.env["QUERY_STRING"] == "drop"
      end
      run ->(_) { raise "secret" }
    RUBY
    serve(config) do |supervisor|
      report = report(supervisor)
      assert_equal %w[mine hidden], report.values_at("fingerprint", "message")
      assert_equal({ "who" => "RuntimeError" }, report["context"])
    end
  end

  def test_an_exception_that_raises_when_it_is_asked_is_answered_all_the_same
    config = <<~RUBY
      class Odd < StandardError
        def message = raise("message")
        def backtrace = [nil, 7]
        def cause = self
      end
      run ->(_) { raise Odd }
    RUBY
    serve(config) do |supervisor|
      answer = supervisor.request
      assert_equal %i[exception error], answer.kinds
      assert_match(/its message raises/, reports(answer).first["message"])
    end
  end

  def test_a_report_has_a_bound_and_keeps_its_message
    config = <<~RUBY
      class Long < StandardError
        def backtrace = Array.new(100) { |n| "\#{n}" * 900 }
      end
      run ->(_) { raise Long, "m" * 100_000 }
    RUBY
    serve(config) do |supervisor|
      text = supervisor.request.frames.assoc(:exception).last
      assert_operator text.bytesize, :<=, Highball::ExceptionReport::MAX_BYTES
      assert_equal "#{"m" * 2048}...", JSON.parse(text)["message"]
    end
  end

  def test_parameters_and_fields_have_no_secrets
    details = Highball::RequestDetails.new(%w[passw token])
    env = { "QUERY_STRING" => "a=1&user[Password]=x&deep[list][][api_token]=y",
            "rack.request.form_hash" => { "c" => "d" * 1000, "file" => Object.new },
            "HTTP_HOST" => "h", "HTTP_COOKIE" => "s=1", "HTTP_AUTHORIZATION" => "b",
            "HTTP_REFERER" => "https://h/page?token=z" }
    parameters = details.parameters(env)
    assert_equal ["1", { "Password" => "[FILTERED]" }], parameters.values_at("a", "user")
    assert_equal({ "list" => [{ "api_token" => "[FILTERED]" }] }, parameters["deep"])
    assert_equal "(Object)", parameters["file"]
    assert_equal 259, parameters["c"].bytesize
    assert_equal({ "Host" => "h", "Referer" => "https://h/page" }, details.headers(env))
  end

  def test_places_are_the_same_in_all_rubies_and_processes
    frames = Highball::CodeFrames.new(["/srv/app"])
    {
      "/srv/app/app/models/order.rb:7:in `total'" => "app/models/order.rb:total",
      "/srv/app/app/models/order.rb:9:in 'Order#total'" => "app/models/order.rb:total",
      "/srv/app/app/models/order.rb:9:in 'Shop::Order.find'" => "app/models/order.rb:find",
      "/srv/app/lib/a.rb:1:in 'block (2 levels) in Order#total'" => "lib/a.rb:total",
      "/srv/app/lib/a.rb:1:in `rescue in block in total'" => "lib/a.rb:total",
      "/srv/app/lib/a.rb:1:in 'Integer#+'" => "lib/a.rb:+",
      "/srv/app/lib/a.rb:1:in `<top (required)>'" => "lib/a.rb:<top (required)>",
      "/srv/app/lib/a.rb:1" => "lib/a.rb",
      "/srv/app/app/views/o/show.html.erb:3:in `_app_views_o_show_html_erb___123456_789'" =>
        "app/views/o/show.html.erb:_app_views_o_show_html_erb",
      "/srv/app/lib/a.rb:1:in '#<Class:0x00007f01>#run'" => "lib/a.rb:run",
      "/usr/share/gems/rack-2.2.6/lib/rack/x.rb:5:in `call'" => "rack/lib/rack/x.rb:call",
      "#{RbConfig::CONFIG["rubylibdir"]}/json/x.rb:5:in `parse'" => "json/x.rb:parse"
    }.each { |line, place| assert_equal place, frames.first([line]), line }
  end

  def test_the_first_place_is_the_applications_own
    frames = Highball::CodeFrames.new(["/srv/app"])
    lines = ["/usr/lib/gems/rack-3.0/lib/a.rb:1:in `x'", "/srv/app/vendor/bundle/gems/b-1.0/lib/b.rb:1:in `y'",
             "/srv/app/app/c.rb:1:in `z'"]
    assert_equal "app/c.rb:z", frames.first(lines)
    called = ["/srv/app/a.rb:7:in `fetch'", "/srv/app/a.rb:7:in `block in run'", "/srv/app/a.rb:7:in `each'",
              "/srv/app/a.rb:7:in `run'", "/srv/app/a.rb:70:in `outer'"]
    assert_equal "a.rb:run", frames.first(called)
    assert_equal "rack/lib/a.rb:x", frames.first(lines.first(2))
    assert_equal "", frames.first([])
  end

  # The interface of Rails' own reporter, from Rails 7.0 on.
  def test_what_rails_is_told_is_reported
    config = <<~RUBY
      module Rails
        Reporter = Class.new do
          def subscribe(one) = @one = one
          def report(error, **more) = @one.report(error, source: "x", **more)
        end
        def self.error = @error ||= Reporter.new
      end
      run lambda { |_|
        Rails.error.report(IOError.new("a"), handled: true, severity: :warning, context: { a: 1 })
        Rails.error.report(IOError.new("b"), handled: true, severity: :info, context: {})
        [200, {}, []]
      }
    RUBY
    serve(config) do |supervisor|
      report = report(supervisor)
      assert_equal ["a", true, { "a" => 1 }], report.values_at("message", "handled", "context")
    end
  end
end
