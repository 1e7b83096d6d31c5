# frozen_string_literal: true

require "test_helper"

class EnvTest < Minitest::Test
  include OwnWorker

  SINCE_3_1 = (Highball::RACK_RELEASE <=> [3, 1]) >= 0

  def test_the_request_line_becomes_the_cgi_variables
    env = env_of(method: "PATCH", path: "/a%20b", query: "x=1", protocol: "HTTP/1.0", scheme: "https", remote: "::1")
    expected = {
      "REQUEST_METHOD" => "PATCH", "SCRIPT_NAME" => "", "PATH_INFO" => "/a%20b", "QUERY_STRING" => "x=1",
      "REQUEST_PATH" => "/a%20b", "REQUEST_URI" => "/a%20b?x=1",
      "SERVER_NAME" => "example.org", "SERVER_PORT" => "3000",
      "SERVER_PROTOCOL" => "HTTP/1.0", "REMOTE_ADDR" => "::1",
      "rack.url_scheme" => "https", "GATEWAY_INTERFACE" => "CGI/1.2",
      "SERVER_SOFTWARE" => "highball/#{Highball::VERSION}"
    }
    assert_equal expected, env.slice(*expected.keys)
  end

  def test_the_usual_request_has_the_same_variables
    env = env_of
    expected = {
      "REQUEST_METHOD" => "GET", "PATH_INFO" => "/", "QUERY_STRING" => "", "REQUEST_URI" => "/",
      "SERVER_PROTOCOL" => "HTTP/1.1", "rack.url_scheme" => "http",
      "rack.multithread" => true, "rack.multiprocess" => true, "rack.run_once" => false, "rack.hijack?" => true
    }
    assert_equal expected, env.slice(*expected.keys)
  end

  def test_what_differs_from_the_last_request_is_told
    [["1.1.1.1", 80], ["2.2.2.2", 8080], ["1.1.1.1", 65_535]].each do |remote, port|
      assert_equal [remote, port.to_s], env_of(remote:, port:).values_at("REMOTE_ADDR", "SERVER_PORT")
    end
  end

  def test_known_and_unknown_headers_arrive
    fields = { "HTTP_HOST" => "h", "HTTP_X_ODD" => "1", "HTTP_COOKIE" => "a=\xC3\xA9", "CONTENT_TYPE" => "text/plain" }
    env = env_of(fields:)
    assert_equal fields.transform_values(&:b), env.slice(*fields.keys)
    assert_equal Encoding::BINARY, env["HTTP_COOKIE"].encoding
  end

  def test_more_headers_than_fit_into_one_insertion_arrive
    fields = (0...300).to_h { |index| ["HTTP_X_#{index}", index.to_s] }
    assert_equal fields, env_of(fields:).slice(*fields.keys)
  end

  def test_a_header_named_version_is_not_the_protocols_version
    ["HTTP/1.0", "HTTP/1.1"].each do |protocol|
      [{}, { "HTTP_VERSION" => "9" }].each do |fields|
        # Since Rack 3.1 the protocol has its own name only.
        expected = SINCE_3_1 ? fields["HTTP_VERSION"] : protocol
        assert_equal [expected, protocol], env_of(protocol:, fields:).values_at("HTTP_VERSION", "SERVER_PROTOCOL")
      end
    end
  end

  def test_offered_protocols_are_a_list
    assert_nil env_of["rack.protocol"]
    { "websocket" => ["websocket"], "h2c , a/1,,b" => %w[h2c a/1 b], "," => [] }.each do |upgrade, expected|
      offered = env_of(fields: { "HTTP_UPGRADE" => upgrade })["rack.protocol"]
      SINCE_3_1 ? assert_equal(expected, offered) : assert_nil(offered)
    end
  end

  def test_keys_are_those_of_ruby_code
    assert env_of(fields: { "HTTP_X_NEW" => "1" }).keys.all?(&:frozen?)
  end

  def test_arrival_and_deadline_are_told
    env = env_of(arrived: 1_700_000_000_000_042, deadline: 2_500_000_000)
    assert_equal "t=1700000000.000042", env["HTTP_X_REQUEST_START"]
    assert_in_delta 2.5, env["highball.deadline"], 1e-9
    refute env_of(deadline: 0).key?("highball.deadline")
  end

  def test_a_proxys_request_start_goes_before_our_own
    assert_equal "t=5", env_of(fields: { "HTTP_X_REQUEST_START" => "t=5" })["HTTP_X_REQUEST_START"]
  end

  def test_a_request_may_change_its_env_without_changing_the_next
    env_of.merge!("PATH_INFO" => "/other", "rack.multithread" => nil, "own" => 1)["rack.after_reply"] << 1
    env = env_of
    assert_equal ["/", true, nil, []], env.values_at("PATH_INFO", "rack.multithread", "own", "rack.after_reply")
  end

  def test_no_body_is_an_input_at_its_end
    return refute env_of(method: "POST").key?("rack.input") if SINCE_3_1

    input = env_of["rack.input"]
    assert_equal ["", nil, nil, 0], [input.read, input.read(1), input.gets, input.rewind]
  end

  def test_a_body_in_the_record_is_a_rewindable_binary_input
    read = []
    app = lambda do |env|
      input = env["rack.input"]
      read << input.read << input.rewind << input.gets << input.external_encoding
      [200, {}, []]
    end
    request(app, method: "POST", body: "a\nb\xFF")
    assert_equal ["a\nb\xFF".b, 0, "a\n", Encoding::BINARY], read
  end

  def test_a_body_in_a_file_is_a_rewindable_binary_input_that_is_closed
    File.open(Dir.tmpdir, File::TMPFILE | File::RDWR, 0o600) do |file|
      file.write("line\n" * 100_000)
      file.flush
      input = read = nil
      app = lambda do |env|
        input = env["rack.input"]
        read = [input.read(5), input.rewind, input.read.size, input.external_encoding, input.binmode?]
        [200, {}, []]
      end
      request(app, method: "PUT", file:)
      assert_equal ["line\n", 0, 500_000, Encoding::BINARY, true], read
      assert input.closed?
    end
  end

  def test_racks_own_check_passes
    app = Rack::Lint.new(->(env) { [200, { "content-type" => "text/plain" }, [env["rack.input"].read]] })
    fields = { "HTTP_HOST" => "example.org:80", "CONTENT_LENGTH" => "1" }
    answer = request(app, method: "POST", body: "x", fields:)
    assert_nil answer.error
    assert_equal [200, "x"], [answer.status, answer.body]
  end
end
