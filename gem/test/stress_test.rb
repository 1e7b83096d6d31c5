# frozen_string_literal: true

require "test_helper"

# The extension while Ruby collects at every allocation: an object that nothing marks does not survive this.
class StressTest < Minitest::Test
  include OwnWorker

  FIELDS = {
    "HTTP_HOST" => "example.org", "HTTP_COOKIE" => "a=#{"c" * 300}", "CONTENT_TYPE" => "text/plain",
    **(0...60).to_h { |index| ["HTTP_X_STRESS_#{index}", "value #{index}"] }
  }.freeze

  def stress(app, **request)
    OwnWorker.request(lambda do |env|
      GC.stress = false
      app.call(env)
    ensure
      GC.stress = true
    end, **request) do |slot|
      GC.stress = true
      front.answer(slot)
    ensure
      GC.stress = false
    end
  ensure
    GC.stress = false
  end

  # Two values of a header.
  LINES = (Highball::RACK_RELEASE <=> [3, 0]).negative? ? "1\n2" : %w[1 2].freeze

  def test_envs_and_lists_survive
    3.times do |round|
      given = nil
      body = "body #{round} " * 40
      app = lambda do |env|
        given = env.merge("read" => env["rack.input"].read)
        headers = { "X-Round" => round, "Set-Cookie" => ["a=#{round}", "b"], "X-Lines" => LINES }
        # A string of its own, which nothing else keeps alive.
        [200, headers, [round.to_s, "x" * 200_000]]
      end
      path = "/#{"p" * 200}"
      answer = stress(app, method: "POST", path:, query: "q=#{round}", fields: FIELDS, body:, port: round)
      assert_equal FIELDS, given.slice(*FIELDS.keys)
      assert_equal ["POST", path, "q=#{round}", body, round.to_s],
                   given.values_at("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "read", "SERVER_PORT")
      fields = [["X-Round", round.to_s], ["Set-Cookie", "a=#{round}"], %w[Set-Cookie b]]
      fields += [%w[X-Lines 1], %w[X-Lines 2], %w[content-length 200001]]
      assert_equal fields, answer.fields
      assert_equal "#{round}#{"x" * 200_000}", answer.body
    end
  end

  def test_chunks_hints_and_errors_survive
    app = lambda do |env|
      env["rack.early_hints"].call("Link" => "</#{"l" * 100}>")
      [200, { "X-A" => "1" }, Enumerator.new { |chunks| 20.times { |index| chunks << ("#{index} " * 500) } }]
    end
    answer = stress(app, fields: FIELDS)
    assert_equal Array.new(20) { |index| "#{index} " * 500 }.join, answer.body
    assert_equal [103, [["Link", "</#{"l" * 100}>"]]], Front.parse_head(answer.frames.first.last)
    assert_match(/InvalidResponse: the header "X-B" has/, stress(->(_) { [200, { "X-B" => "\r" }, []] }).error)
    assert_match(/RuntimeError: #{"m" * 100}/, stress(->(_) { raise "m" * 100 }).error)
  end

  def test_a_hijack_survives
    socket = nil
    stress(->(env) { socket = env["rack.hijack"].call and [200, {}, []] }, fields: FIELDS)
    socket.write("raw")
    socket.close
    assert_equal "raw", OwnWorker.message.last.first.read
  end
end
