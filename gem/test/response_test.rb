# frozen_string_literal: true

require "test_helper"

class ResponseTest < Minitest::Test
  include OwnWorker

  RACK_3 = (Highball::RACK_RELEASE <=> [3, 0]) >= 0

  # A body that counts its ends.
  class Body
    attr_reader :closed

    def initialize(*chunks, failing: nil)
      @chunks = chunks
      @failing = failing
      @closed = 0
    end

    def each(&block)
      @chunks.each(&block)
      raise @failing if @failing
    end

    def close
      @closed += 1
    end
  end

  def respond(status = 200, headers = {}, body = [], **request, &block)
    request(->(_) { [status, headers, body] }, **request, &block)
  end

  def test_a_list_of_strings_is_one_response
    answer = respond(201, { "X-A" => "1" }, ["one", "", "two"])
    assert_equal [201, [%w[X-A 1]], "onetwo"], [answer.status, answer.fields, answer.body]
    assert_equal :end, answer.kinds.last
  end

  def test_a_list_larger_than_the_ring_arrives_whole
    parts = Array.new(40) { |index| index.to_s * 9000 }
    assert_equal parts.join, respond(200, {}, parts).body
  end

  def test_a_string_larger_than_the_ring_arrives_whole
    body = Random.bytes(1_000_000)
    assert_equal body, respond(200, {}, [body]).body
  end

  def test_a_long_array_has_a_length_unless_the_application_frames_it
    list = ["x" * 40_000] * 2
    assert_equal [%w[content-length 80000]], respond(200, {}, list).fields
    assert_empty respond(200, {}, list.take(1)).fields
    [{ "Content-LENGTH" => "80000" }, { "transfer-encoding" => "chunked" }].each do |headers|
      assert_equal headers.to_a, respond(200, headers, list).fields
    end
    [204, 205, 304].each { |status| assert_empty respond(status, {}, list).fields }
  end

  def test_several_values_of_a_header_are_several_fields
    cookies = RACK_3 ? %w[a=1 b=2] : "a=1\nb=2"
    answer = respond(200, { "Set-Cookie" => cookies, "X-List" => %w[1 2], "X-Number" => 5, "X-Empty" => "" })
    assert_equal [%w[Set-Cookie a=1], %w[Set-Cookie b=2], %w[X-List 1], %w[X-List 2], %w[X-Number 5], ["X-Empty", ""]],
                 answer.fields
  end

  def test_a_line_break_in_a_value_is_refused_by_newer_racks
    [[], Body.new("x")].each do |body|
      answer = respond(200, { "A" => "1\n2" }, body)
      next assert_equal [%w[A 1], %w[A 2]], answer.fields unless RACK_3

      assert_match(/InvalidResponse: the header "A" .* since Rack 3 several values are an array/, answer.error)
    end
  end

  def test_headers_for_the_server_are_not_sent
    assert_equal [%w[X-A 1]], respond(200, { "rack.odd" => "1", "X-A" => "1" }).fields
  end

  def test_headers_in_an_enumeration_are_sent
    assert_equal [%w[A 1], %w[A 2], %w[B 3]], respond(200, [%w[A 1], %w[B 3], %w[A 2]].each).fields
  end

  def test_what_would_split_a_response_is_an_error
    names = [{ "A\r\nB" => "1" }, { "A B" => "1" }, { "" => "1" }]
    values = [{ "A" => "1\r\nB: 2" }, { "A" => "\0" }, { "A" => ["1\r"] }]
    (names + values).each do |headers|
      [[], Body.new("x")].each do |body|
        answer = respond(200, headers, body)
        assert_nil answer.head, headers.inspect
        assert_match(/InvalidResponse/, answer.error)
      end
    end
  end

  def test_what_is_no_response_is_an_error
    [nil, 5, [], [200], ["x", {}, []], [99, {}, []], [1000, {}, []], [200, nil, []], [200, {}, nil], [200, {}, [1]],
     [200, {}, "text"], [200, { 5 => "x" }, []], [200, {}, Body.new(nil)]].each do |returned|
      answer = request(->(_) { returned })
      assert_match(/InvalidResponse|NoMethodError/, answer.error, returned.inspect)
    end
  end

  def test_a_head_larger_than_the_ring_is_an_error
    assert_match(/exceeds/, respond(200, { "X-Long" => "x" * 100_000 }).error)
  end

  def test_a_status_as_text_is_a_number
    assert_equal 404, respond("404").status
  end

  def test_each_chunk_leaves_when_it_is_yielded
    gate = Queue.new
    body = Enumerator.new { |chunks| 3.times { |index| chunks << index.to_s and gate.pop } }
    respond(200, {}, body) do |slot|
      assert_equal :head, front.frame(slot).first
      3.times do |index|
        assert_equal [:chunk, index.to_s], front.frame(slot)
        gate << true
      end
      assert_equal [:end], front.answer(slot).kinds
    end
  end

  def test_a_body_is_closed_once_after_it_was_sent
    body = Body.new("a", "b")
    assert_equal "ab", respond(200, {}, body).body
    assert_equal 1, body.closed
  end

  def test_a_body_that_raises_is_closed_once_and_the_response_cut
    body = Body.new("a", failing: "broken")
    answer = respond(200, {}, body)
    assert_equal [1, %i[head chunk error]], [body.closed, answer.kinds]
    assert_match(/\ARuntimeError: broken\n.*response_test/, answer.error)
  end

  def test_a_body_of_a_response_without_content_is_closed_once_and_not_asked
    [["HEAD", 200], ["GET", 204], ["GET", 304]].each do |method, status|
      body = Body.new(failing: "asked")
      answer = respond(status, {}, body, method:)
      assert_equal [1, %i[head end]], [body.closed, answer.kinds]
    end
  end

  def test_a_body_is_closed_once_when_its_headers_are_refused
    body = Body.new("a")
    respond(200, { "A" => "\r" }, body)
    assert_equal 1, body.closed
  end

  def test_a_body_is_closed_once_when_the_client_leaves
    chunks = Array.new(100, "x" * 10_000)
    body = Body.new(*chunks)
    respond(200, {}, body) do |slot|
      assert_equal :head, front.frame(slot).first
      front.abandon(slot)
      refute_includes front.answer(slot).kinds, :error
    end
    assert_equal 1, body.closed
  end

  def test_a_writer_that_waits_for_room_hears_that_the_client_left
    seen = nil
    app = lambda do |env|
      env["rack.response_finished"] << ->(*, error) { seen = error }
      [200, {}, ["x" * 1_000_000]]
    end
    request(app) do |slot|
      front.frame(slot)
      front.abandon(slot)
      front.answer(slot)
    end
    assert_kind_of Highball::ClientGone, seen
  end

  def test_an_error_of_close_comes_after_the_response
    body = Body.new("a")
    body.define_singleton_method(:close) { raise "late" }
    answer = respond(200, {}, body)
    assert_equal %i[head chunk end], answer.kinds
    message, = OwnWorker.message
    assert_match(/late/, message.dig("Error", "message"))
  end

  def test_a_file_is_named_to_the_front
    body = Body.new("not asked")
    body.define_singleton_method(:to_path) { File.basename(__FILE__) }
    answer = Dir.chdir(__dir__) { respond(200, {}, body) }
    files = answer.frames.select { |kind, _| kind == :file }
    assert_equal [[:file, File.expand_path(__FILE__)]], files
    assert_equal 1, body.closed
  end

  def test_a_file_that_is_not_there_is_enumerated
    body = Body.new("asked")
    body.define_singleton_method(:to_path) { "/nonexistent" }
    assert_equal "asked", respond(200, {}, body).body
  end

  def test_a_body_whose_path_is_nil_is_enumerated
    body = Body.new("asked")
    body.define_singleton_method(:to_path) { nil }
    assert_equal "asked", respond(200, {}, body).body
    assert_equal 1, body.closed
  end

  def test_a_streaming_body_writes_when_it_likes
    body = lambda do |stream|
      assert_equal "in", stream.read
      assert_equal 3, stream.write("a", "bc")
      stream << "d" << "e"
      stream.flush
      stream.close
      assert stream.closed?
      assert_raises(IOError) { stream.write("late") }
    end
    answer = respond(200, {}, body, method: "POST", body: "in")
    assert_nil answer.error
    assert_equal ["abcde", :end], [answer.body, answer.kinds.last]
  end

  def test_a_stream_of_a_request_without_a_body_is_at_its_end
    read = nil
    answer = respond(200, {}, ->(stream) { read = [stream.read, stream.read(1), stream.read(1, +"x")] })
    assert_equal [["", nil, nil], nil], [read, answer.error]
  end

  def test_the_head_of_a_streaming_body_leaves_before_it_writes
    gate = Queue.new
    respond(200, {}, ->(_) { gate.pop }) do |slot|
      assert_equal :head, front.frame(slot).first
      gate << true
      assert_equal [:end], front.answer(slot).kinds
    end
  end

  def test_a_streaming_body_that_raises_cuts_the_response
    stream = nil
    answer = respond(200, {}, ->(given) { (stream = given) << "a" and raise "broken" })
    assert_equal %i[head chunk error], answer.kinds
    assert stream.closed?
  end

  def test_an_error_of_the_application_is_told_with_its_backtrace
    answer = request(->(_) { raise ArgumentError, "no" })
    assert_equal [:error], answer.kinds
    assert_match(/\AArgumentError: no\n.*response_test\.rb:\d+/, answer.error)
  end

  def test_an_error_that_the_ring_has_no_room_for_is_logged_all_the_same
    chunks = Array.new(7, "x" * 9000)
    body = Body.new(*chunks, failing: "r" * 8_000)
    gate = Queue.new
    body.define_singleton_method(:close) { gate << true }
    respond(200, {}, body) do |slot|
      gate.pop
      message, = OwnWorker.message
      assert_includes message.dig("Error", "message"), "r" * 8_000
      refute_includes front.answer(slot).kinds, :end
    end
  end

  def test_no_exception_ends_the_thread
    [-> { exit }, -> { abort }, -> { throw :nothing }, -> { raise NoMemoryError }, -> { raise Exception }, # rubocop:disable Lint
     -> { raise Class.new(StandardError) { def message = raise }, "x" }].each do |failing|
      answer = nil
      _, printed = capture_io { answer = request(->(_) { failing.call }) }
      assert_equal [:error], answer.kinds, printed
    end
    assert_equal 200, respond.status
  end

  def test_a_thread_that_is_killed_answers
    answer = request(->(_) { Thread.current.kill })
    assert_match(/thread was ended/, answer.error)
  end

  def test_early_hints_leave_before_the_response
    app = lambda do |env|
      env["rack.early_hints"].call("Link" => "</a>; rel=preload")
      [200, {}, []]
    end
    answer = request(app)
    assert_equal %i[hints head end], answer.kinds
    assert_equal [103, [["Link", "</a>; rel=preload"]]], Front.parse_head(answer.frames.first.last)
  end

  def test_hints_and_hijack_of_a_request_that_is_over_do_nothing_to_the_next
    env = env_of
    answer = request(lambda do |_|
      env["rack.early_hints"].call("Link" => "x")
      assert_raises(Highball::Error) { env["rack.hijack"].call }
      [200, {}, []]
    end)
    assert_equal [%i[head end], nil], [answer.kinds, answer.error]
  end

  def test_callables_run_after_the_response_each_whatever_the_others_do
    seen = []
    app = lambda do |env|
      env["rack.response_finished"] << ->(*arguments) { seen << [:first, arguments.size, arguments[1], arguments[3]] }
      env["rack.response_finished"] << ->(*) { raise "broken" }
      env["rack.after_reply"] << -> { seen << :replied }
      [202, {}, []]
    end
    assert_equal 202, request(app).status
    assert_equal [[:first, 4, 202, nil], :replied], seen
    assert_match(/broken/, OwnWorker.message.first.dig("Error", "message"))
  end

  def test_callables_run_after_an_error_and_are_told
    seen = nil
    request(lambda do |env|
      env["rack.response_finished"] << ->(_, status, headers, error) { seen = [status, headers, error.message] }
      raise "broken"
    end)
    assert_equal [nil, nil, "broken"], seen
  end

  def test_a_full_hijack_gives_the_application_a_socket_to_the_front
    body = Body.new
    app = lambda do |env|
      io = env["rack.hijack"].call
      assert_same io, env["rack.hijack_io"]
      assert_same io, env["rack.hijack"].call
      io.write("HTTP/1.1 200 OK\r\n\r\nraw")
      io.close
      [-1, {}, body]
    end
    answer = request(app)
    assert_equal [:hijacked], answer.kinds
    assert_equal 1, body.closed
    assert_equal "HTTP/1.1 200 OK\r\n\r\nraw", hijacked_socket.read
  end

  def test_a_partial_hijack_writes_the_head_and_calls_back
    headers = { "X-A" => "1", "rack.hijack" => ->(io) { io.write("rest") and io.close } }
    answer = respond(200, headers)
    assert_equal [:hijacked], answer.kinds
    assert_equal "HTTP/1.1 200 OK\r\nX-A: 1\r\nConnection: close\r\n\r\nrest", hijacked_socket.read
  end

  def test_a_partial_hijack_keeps_the_applications_connection_header
    headers = { "Connection" => "Upgrade", "rack.hijack" => ->(io) { io.close } }
    respond(101, headers)
    assert_equal "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n", hijacked_socket.read
  end

  def test_a_partial_hijack_of_a_response_without_content_is_its_head_alone
    [["HEAD", 200], ["GET", 204], ["GET", 304]].each do |method, status|
      called = false
      body = Body.new(failing: "asked")
      answer = respond(status, { "X-A" => "1", "rack.hijack" => ->(_) { called = true } }, body, method:)
      assert_equal [%i[head end], [%w[X-A 1]]], [answer.kinds, answer.fields]
      assert_equal [false, 1], [called, body.closed]
    end
  end

  def test_a_callback_of_a_hijack_that_raises_ends_the_connection
    respond(200, { "rack.hijack" => ->(_) { raise "broken" } })
    assert_equal "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", hijacked_socket.read
    assert_match(/broken/, OwnWorker.message.first.dig("Error", "message"))
  end

  def test_a_streaming_body_of_a_101_is_called_with_the_connection
    kept = nil
    body = ->(stream) { (kept = stream).write("hello") and stream.flush }
    answer = respond(101, { "upgrade" => "echo" }, body)
    assert_equal [:hijacked], answer.kinds
    client = hijacked_socket
    head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nConnection: Upgrade\r\n\r\n"
    assert_equal "#{head}hello", client.readpartial(1000)
    # Both directions, also after the call has returned.
    client.write("in\n")
    assert_equal "in\n", kept.gets
    kept.close
    assert_empty client.read
  end

  def test_a_streaming_body_of_a_101_that_raises_ends_the_connection
    respond(101, { "upgrade" => "echo" }, ->(_) { raise "broken" })
    assert hijacked_socket.read.end_with?("\r\n\r\n")
    assert_match(/broken/, OwnWorker.message.first.dig("Error", "message"))
  end

  def test_rack_protocol_upgrades_the_connection
    body = ->(stream) { stream.write("hello") and stream.close }
    upgrade = { fields: { "HTTP_UPGRADE" => "h2c, echo" } }
    answer = respond(200, { "rack.protocol" => "echo", "Upgrade" => "x" }, body, **upgrade)
    if (Highball::RACK_RELEASE <=> [3, 1]).negative?
      assert_match(/InvalidResponse: rack.protocol is "echo", which the client does not offer/, answer.error)
    else
      assert_equal [:hijacked], answer.kinds
      head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nConnection: Upgrade\r\n\r\n"
      assert_equal "#{head}hello", hijacked_socket.read
    end
    assert_match(/InvalidResponse/, respond(200, { "rack.protocol" => "other" }, body, **upgrade).error)
    # An error, or a body for a client that is not upgraded.
    assert_equal %i[head end], respond(403, { "rack.protocol" => "echo" }, [].each, **upgrade).kinds
  end

  def test_a_partial_hijack_whose_head_is_refused_is_an_error
    answer = respond(200, { "X-A" => "1\rX-B: 2", "rack.hijack" => ->(_) { flunk } }, Body.new)
    assert_equal [:error], answer.kinds
    assert_match(/InvalidResponse: header "X-A"/, answer.error)
  end

  def test_a_hijack_after_the_response_has_begun_is_refused
    answer = request(->(env) { [200, {}, ->(stream) { stream << "a" and env["rack.hijack"].call }] })
    assert_equal %i[head chunk error], answer.kinds
  end

  def test_an_error_after_a_hijack_is_logged
    request(->(env) { env["rack.hijack"].call and raise "broken" })
    hijacked_socket.close
    assert_match(/broken/, OwnWorker.message.first.dig("Error", "message"))
  end

  private

  def hijacked_socket
    message, fds = OwnWorker.message
    assert_equal %w[sequence slot thread worker], message.fetch("Hijack").keys.sort
    assert_equal 1, fds.size
    fds.first
  end
end
