# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "timeout"

class MeasuresTest < Minitest::Test
  Measured = Struct.new(:flags, :queries, :cpu, :gc, :allocations, :database, :view, :lock, :route)

  # The flag of a known wait for Ruby's lock, where this Ruby tells of it.
  LOCK_KNOWN = RUBY_VERSION.to_f >= 3.3 ? 32 : 0

  # What a response says that its request cost; nil where it was not measured.
  def measured(answer)
    payload = answer.frames.assoc(:end)&.last
    return if payload.nil? || payload.empty?

    version, flags, length, queries, *numbers = payload.unpack("CCS<L<Q<6")
    assert_equal [2, 56 + length], [version, payload.bytesize]
    Measured.new(flags, queries, *numbers, payload.byteslice(56, length))
  end

  def serve(config, threads: 1, measure_requests: true)
    FakeSupervisor.open({ "config.ru" => config }, threads:, measure_requests:) do |supervisor|
      assert_equal "Booted", supervisor.message.first
      supervisor.fork_worker
      yield ->(path) { supervisor.request(path:) }
    end
  end

  WORKS = <<~RUBY
    run lambda { |env|
      case env["PATH_INFO"]
      when "/allocate" then Array.new(1000) { Object.new }
      when "/collect" then 3.times { GC.start }
      when "/count" then 1_000_000.times { _1 }
      when "/raise" then raise "boom"
      when "/chunks" then return [200, {}, ["a", "b"].each]
      end
      [200, {}, ["x"]]
    }
  RUBY

  def test_allocations_collection_and_cpu_are_those_of_the_request
    serve(WORKS) do |get|
      idle = measured(get["/"])
      assert_equal [LOCK_KNOWN, "".b], [idle.flags, idle.route]
      assert_operator idle.allocations, :<, 100
      assert_includes 1000..1100, measured(get["/allocate"]).allocations
      assert_operator measured(get["/collect"]).gc, :>, 100_000
      assert_operator measured(get["/count"]).cpu, :>, idle.cpu
    end
  end

  def test_work_after_a_response_is_no_part_of_the_next_request
    config = <<~RUBY
      work = -> { 1_000_000.times { _1 } }
      run lambda { |env|
        File.read("gate") if env["PATH_INFO"] == "/gate"
        work.call if env["PATH_INFO"] == "/count"
        (env["rack.after_reply"] ||= []) << work if env["PATH_INFO"] == "/gate"
        [200, {}, ["x"]]
      }
    RUBY
    FakeSupervisor.open({ "config.ru" => config }, measure_requests: true) do |supervisor|
      File.mkfifo(File.join(supervisor.folder, "gate"))
      assert_equal "Booted", supervisor.message.first
      supervisor.fork_worker
      count = measured(supervisor.request(path: "/count"))
      # The second one is there when the thread comes back from the first: it takes that without a wait.
      slots = ["/gate", "/"].map { |path| supervisor.front.publish(path:) }
      File.write(File.join(supervisor.folder, "gate"), "")
      next_one = slots.map { |slot| measured(supervisor.front.answer(slot)) }.last
      assert_operator next_one.cpu, :<, count.cpu / 2
    end
  end

  def test_what_other_threads_allocate_while_it_waits_is_no_part_of_the_next_request
    config = <<~RUBY
      work = -> { File.read("gate"); 10_000.times { Object.new }; File.write("done", "") }
      run lambda { |env|
        Thread.new(&work) if env["PATH_INFO"] == "/work"
        [200, {}, ["x"]]
      }
    RUBY
    FakeSupervisor.open({ "config.ru" => config }, measure_requests: true) do |supervisor|
      gate, done = %w[gate done].map { |name| File.join(supervisor.folder, name).tap { File.mkfifo(_1) } }
      assert_equal "Booted", supervisor.message.first
      supervisor.fork_worker
      supervisor.request(path: "/work")
      File.write(gate, "")
      File.read(done)
      assert_operator measured(supervisor.request(path: "/")).allocations, :<, 1000
    end
  end

  def test_every_kind_of_end_says_what_the_request_cost
    serve(WORKS) do |get|
      assert measured(get["/chunks"])
      failed = get["/raise"]
      assert_match(/boom/, failed.error)
      assert measured(failed)
    end
  end

  def test_figures_of_a_process_with_threads_are_marked_as_shared
    serve(WORKS, threads: 2) { |get| assert_equal 1, measured(get["/"]).flags & 1 }
  end

  # Another one held the GVL for an unknown part of its time.
  def test_a_request_beside_another_one_is_marked
    config = <<~RUBY
      run lambda { |env|
        File.read("gate") if env["PATH_INFO"] == "/gate"
        [200, {}, ["x"]]
      }
    RUBY
    FakeSupervisor.open({ "config.ru" => config }, threads: 2, measure_requests: true) do |supervisor|
      gate = File.join(supervisor.folder, "gate")
      File.mkfifo(gate)
      assert_equal "Booted", supervisor.message.first
      supervisor.fork_worker
      overlapped = -> { measured(supervisor.request(path: "/")).flags & 16 }
      assert_equal 0, overlapped.call
      slot = supervisor.front.publish(path: "/gate")
      assert_equal 16, overlapped.call
      File.write(gate, "")
      assert_equal 16, measured(supervisor.front.answer(slot)).flags & 16
      # Once its thread has come back.
      Timeout.timeout(FakeSupervisor::TIMEOUT) { nil until overlapped.call.zero? }
    end
  end

  # Two requests that are in the application at once, and compute by turns.
  BESIDE = <<~RUBY
    ARRIVED = Queue.new
    run lambda { |env|
      ARRIVED << nil
      Thread.pass until ARRIVED.size == 2
      10.times do
        100_000.times { _1 }
        Thread.pass
      end
      [200, {}, ["x"]]
    }
  RUBY

  def test_the_wait_for_rubys_lock_is_known_where_ruby_tells_of_it
    FakeSupervisor.open({ "config.ru" => BESIDE }, threads: 2, measure_requests: true) do |supervisor|
      assert_equal "Booted", supervisor.message.first
      supervisor.fork_worker
      slots = Array.new(2) { supervisor.front.publish(path: "/") }
      costs = slots.map { |slot| measured(supervisor.front.answer(slot)) }
      assert_equal [LOCK_KNOWN] * 2, (costs.map { |cost| cost.flags & 32 })
      next assert_equal [0, 0], costs.map(&:lock) if LOCK_KNOWN.zero?

      # While one computes, the other one waits.
      assert_operator costs.sum(&:lock), :>, costs.sum(&:cpu) / 4
    end
  end

  def test_one_thread_alone_waits_for_no_lock
    serve(WORKS) do |get|
      cost = measured(get["/count"])
      assert_operator cost.lock, :<, cost.cpu / 2
    end
  end

  def test_nothing_is_measured_where_the_setting_is_off
    serve(WORKS, measure_requests: false) do |get|
      assert_nil measured(get["/"])
      assert_nil measured(get["/raise"])
    end
  end

  def test_the_route_is_the_one_that_the_framework_names
    config = <<~'RUBY'
      Route = Struct.new(:path)
      Path = Struct.new(:spec)
      ROUTE = Route.new(Path.new(:"/from_8_1/:id(.:format)"))
      run lambda { |env|
        case env["PATH_INFO"]
        when "/pattern" then env["action_dispatch.route_uri_pattern"] = "/books/:id(.:format)"
        when "/route" then env["action_dispatch.route"] = ROUTE
        when "/broken" then env["action_dispatch.route"] = Object.new
        when "/action" then env["action_dispatch.request.path_parameters"] = { controller: "books", action: :show, id: 1 }
        when "/sinatra" then env["sinatra.route"] = "GET /books/:id"
        when "/long" then env["sinatra.route"] = "GET /#{"x" * 300}"
        when "/odd"
          env.update("action_dispatch.route_uri_pattern" => 1, "sinatra.route" => :x,
                     "action_dispatch.request.path_parameters" => { controller: nil })
        end
        [200, {}, []]
      }
    RUBY
    serve(config) do |get|
      routes = %w[/pattern /route /broken /action /sinatra /odd].to_h { |path| [path, measured(get[path]).route] }
      expected = { "/pattern" => "/books/:id", "/route" => "/from_8_1/:id", "/broken" => "", "/action" => "books#show",
                   "/sinatra" => "/books/:id", "/odd" => "" }
      assert_equal expected, routes
      assert_equal "/#{"x" * 199}", measured(get["/long"]).route
    end
  end

  RAILS = <<~RUBY
    require "action_controller"
    require "active_record"
    require "active_record/railties/controller_runtime"
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: "books.sqlite3")
    ActiveRecord::Base.connection.create_table(:books) { |table| table.string :name }
    class Book < ActiveRecord::Base; end
    Book.create!(name: "a")
    class BooksController < ActionController::Base
      include ActiveRecord::Railties::ControllerRuntime
      def show
        10.times { Book.find(1) }
        Book.cache { 5.times { Book.find(1) } }
        render inline: "<% sleep 0.02 %>x"
      end
      def fail = (Book.find(1) and raise "boom")
    end
    run lambda { |env|
      return [200, {}, []] if env["PATH_INFO"] == "/other"
      action = env["PATH_INFO"] == "/fail" ? :fail : :show
      env["action_dispatch.request.path_parameters"] = { controller: "books", action: action.to_s }
      BooksController.action(action).call(env)
    }
  RUBY

  def test_queries_database_and_view_of_rails_are_counted
    serve(RAILS) do |get|
      # A worker's first one asks for the database's version as well.
      get["/"]
      cost = measured(get["/"])
      assert_equal ["books#show", 11], [cost.route, cost.queries]
      assert_operator cost.view, :>=, 20_000_000
      assert_includes 1..cost.view, cost.database
      failed = measured(get["/fail"])
      assert_equal ["books#fail", 1], [failed.route, failed.queries]
      assert_equal 0, measured(get["/other"]).queries
    end
  end
end
