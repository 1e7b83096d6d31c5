# frozen_string_literal: true

require "test_helper"
require "fake_supervisor"
require "timeout"

class TemplateTest < Minitest::Test
  HELLO = "run ->(env) { [200, {}, [Process.pid.to_s]] }"

  def boot(config, files = {}, **start, &block)
    FakeSupervisor.open({ "config.ru" => config, **files }, **start, &block)
  end

  def booted(supervisor)
    name, fields = supervisor.message
    assert_equal "Booted", name, fields.inspect
    fields
  end

  def failed(config, files = {}, **start)
    boot(config, files, **start) do |supervisor|
      name, fields = supervisor.message
      assert_equal "BootFailed", name, fields.inspect
      assert_equal 1, supervisor.wait.exitstatus
      yield(*fields.values_at("class", "message", "backtrace"), supervisor) if block_given?
    end
  end

  def test_a_template_loads_the_application_and_says_so
    boot(HELLO, compact: true) do |supervisor|
      fields = booted(supervisor)
      assert_equal [supervisor.pid, RUBY_VERSION, Rack.release, []], fields.values_at("pid", "ruby", "rack", "held")
      assert_kind_of Float, fields["seconds"]
      supervisor.send("Exit")
      assert supervisor.wait.success?
    end
  end

  def test_the_filtered_parameters_of_rails_are_reported
    rails = <<~RUBY
      module Rails
        CONFIG = Struct.new(:filter_parameters).new([:iban, "card", /pin/, ->(*) {}, "x" * 65, ""])
        def self.application = Struct.new(:config).new(CONFIG)
      end
    RUBY
    boot(rails + HELLO) { |supervisor| assert_equal %w[iban card], booted(supervisor)["filter_parameters"] }
    boot(HELLO) { |supervisor| assert_empty booted(supervisor)["filter_parameters"] }
  end

  def test_the_public_folder_of_rails_is_reported_unless_something_stands_before_it
    folder = lambda do |middleware, run = "run Rails.application"|
      rails = <<~RUBY
        Dir.mkdir("public") unless File.exist?("public")
        Named = Struct.new(:name)
        Server = Struct.new(:headers, :index_name)
        class Example
          def call(_) = [200, {}, []]
          def paths = { "public" => [File.expand_path("public")] }
          def middleware = #{middleware.inspect}.map { |name| Named.new(name) }
          def config = Struct.new(:public_file_server).new(Server.new({ "X-A" => 1 }, "home"))
        end
        module Rails
          def self.application = @application ||= Example.new
        end
      RUBY
      boot("#{rails}\n#{run}") { |supervisor| booted(supervisor)["public_folder"] }
    end
    expected = { "index" => "home", "https_only" => true, "headers" => [%w[X-A 1]] }
    known = %w[ActionDispatch::SSL Rack::Sendfile]
    assert_equal expected, folder.call([*known, "ActionDispatch::Static", "Login"]).except("path")
    refute folder.call(%w[Rack::Sendfile ActionDispatch::Executor])["https_only"]
    assert_nil folder.call([*known, "Login", "ActionDispatch::Static"])
    assert_nil folder.call(known)
    assert_nil folder.call([*known, "ActionDispatch::Static"], "use Rack::ContentLength\nrun Rails.application")
    assert_nil boot(HELLO) { |supervisor| booted(supervisor)["public_folder"] }
  end

  def test_the_environment_is_that_of_the_start
    config = 'run ->(_) { [200, {}, [ENV.values_at("RACK_ENV", "RAILS_ENV").join(" ") + " " + Dir.pwd]] }'
    boot(config, environment: "staging") do |supervisor|
      booted(supervisor)
      supervisor.fork_worker
      assert_equal "staging staging #{File.realpath(supervisor.folder)}", supervisor.request.body
    end
  end

  def test_nothing_reads_from_the_control_socket
    boot("run ->(_) { [200, {}, [$stdin.read.inspect, `readlink /proc/self/fd/0`]] }") do |supervisor|
      booted(supervisor)
      supervisor.fork_worker
      assert_equal "\"\"/dev/null\n", supervisor.request.body
    end
  end

  def test_an_application_that_raises_is_told_with_its_backtrace
    failed("\nraise ArgumentError, 'no database'") do |name, message, backtrace|
      assert_equal "ArgumentError", name
      assert_equal "no database", message
      assert_match(/config\.ru:2/, backtrace.first)
    end
  end

  def test_a_syntax_error_is_told
    failed("run ->(") { |name, message| assert_equal ["SyntaxError", true], [name, message.include?("config.ru:1")] }
  end

  def test_a_missing_library_is_told
    failed("require 'no/such/library'") do |name, message|
      assert_equal ["LoadError", true], [name, message.include?("no/such")]
    end
  end

  def test_an_exit_while_booting_is_a_failure
    failed("abort 'not today'") do |name, message, _, supervisor|
      assert_equal ["SystemExit", "not today"], [name, message]
      assert_match(/not today/, supervisor.log)
    end
  end

  def test_a_mistake_in_the_hooks_is_a_failure
    failed(HELLO, { "hooks.rb" => "after_fork { }\nafter_frok { }" }) do |name, message, backtrace|
      assert_equal "NoMethodError", name
      assert_match(/after_frok/, message)
      assert_match(/hooks\.rb:2/, backtrace.first)
    end
  end

  def test_a_missing_bundle_is_told
    failed(HELLO, { "Gemfile" => "gem 'no-such-gem-at-all'" }) { |name, _| assert_match(/\ABundler::/, name) }
  end

  def test_a_missing_extension_is_told
    Dir.mktmpdir do |folder|
      FileUtils.cp_r(File.expand_path("../lib", __dir__), folder)
      FileUtils.rm_r(Dir[File.join(folder, "lib/highball/[0-9]*")])
      FileUtils.mkdir_p(File.join(folder, "lib/highball/2.7"))
      FileUtils.touch(File.join(folder, "lib/highball/2.7/highball.so"))
      control, theirs = UNIXSocket.pair(:SEQPACKET)
      pid = spawn(RbConfig.ruby, File.join(folder, "lib/highball/template.rb"), in: theirs)
      theirs.close
      fields = JSON.parse(control.recv(65_536)).fetch("BootFailed")
      assert_equal "the extension was built for Ruby 2.7; this is Ruby #{RUBY_VERSION} (#{RbConfig.ruby}): " \
                   "serve with one of those (--ruby PATH), or build it for this Ruby (`make build` in the " \
                   "repository), or install a gem built for it",
                   fields["message"]
      assert_equal 1, Process.wait2(pid).last.exitstatus
    end
  end

  def test_threads_that_the_application_started_are_named_with_their_place
    config = <<~RUBY
      Thread.new { sleep }.name = "ticker"
      Thread.new { sleep }
      #{HELLO}
    RUBY
    boot(config) do |supervisor|
      held = booted(supervisor)["held"].sort
      assert_equal 2, held.size, held
      rackup = "#{supervisor.folder}/config\\.ru"
      assert_match(/\Athread "ticker" started at #{rackup}:1 while .* after_fork instead\z/, held[0])
      assert_match(/\Athread started at #{rackup}:2 while /, held[1])
    end
  end

  # The application's answer: how nice the thread was that loaded it, and how nice is its own (proc_pid_stat(5)).
  RANKED = <<~'RUBY'
    nice = -> { File.read("/proc/thread-self/stat")[/\) .*/].split[17].to_i }
    loaded = nice.call
    run ->(_) { [200, {}, ["#{loaded} #{nice.call} #{Thread.current == Thread.main}"]] }
  RUBY

  def test_the_application_loads_at_low_priority_and_workers_run_at_normal
    own = Process.getpriority(Process::PRIO_PROCESS, 0)
    # There is no step beyond the nineteenth.
    { false => own, true => [own + 10, 19].min }.each do |low_priority, loaded|
      boot(RANKED, low_priority:) do |supervisor|
        assert_empty booted(supervisor)["held"]
        supervisor.fork_worker
        assert_equal "#{loaded} #{own} true", supervisor.request.body
      end
    end
  end

  # Its answer: what was asked for in the process that forks, and how often its bodies were closed.
  WARMED = <<~'RUBY'
    template = Process.pid
    seen = []
    body = Class.new do
      define_method(:each) { |&block| block.call(seen.inspect) }
      define_method(:close) { seen << "closed" }
    end
    run lambda { |env|
      seen << env.values_at("REQUEST_METHOD", "rack.url_scheme", "HTTP_HOST", "PATH_INFO", "QUERY_STRING").join(" ") if Process.pid == template
      [env["QUERY_STRING"] == "bad" ? 500 : 200, {}, body.new]
    }
  RUBY

  def test_a_warm_up_is_one_request_in_the_template
    boot(WARMED, warm_up: ["/list?page=2"]) do |supervisor|
      booted(supervisor)
      supervisor.fork_worker
      assert_equal '["GET https localhost /list page=2", "closed"]', supervisor.request.body
      assert_empty supervisor.log
    end
  end

  def test_a_failed_warm_up_is_logged_and_workers_serve
    raises = "run ->(env) { Process.ppid == #{Process.pid} ? raise('not yet') : [200, {}, ['well']] }"
    faults = { WARMED => "/?bad was answered with status 500", raises => "/?bad failed: RuntimeError: not yet" }
    faults.each do |config, fault|
      boot(config, warm_up: ["/?bad"]) do |supervisor|
        booted(supervisor)
        supervisor.fork_worker
        assert_equal 200, supervisor.request.status
        assert_includes supervisor.log, "highball: warm_up: #{fault}"
      end
    end
  end

  def test_each_path_of_a_warm_up_is_requested_in_order
    config = <<~RUBY
      seen = []
      run lambda { |env|
        seen << env["PATH_INFO"]
        raise "not this one" if env["PATH_INFO"] == "/b"

        [200, {}, [seen.join(" ")]]
      }
    RUBY
    boot(config, warm_up: %w[/a /b /c]) do |supervisor|
      booted(supervisor)
      supervisor.fork_worker
      assert_equal "/a /b /c /", supervisor.request.body
      assert_equal ["highball: warm_up: /b failed: RuntimeError: not this one"],
                   supervisor.log.lines(chomp: true).grep(/highball:/)
    end
  end

  def test_frequent_pages_are_requested_after_those_that_are_listed
    boot(WARMED, warm_up: ["/list?page=2"], frequent_paths: %w[/a /b]) do |supervisor|
      fact = booted(supervisor)["runtime"].find { |option| option["name"] == "warm_up" }
      assert_match(/\A3 pages in \d+\.\d\d s\z/, fact["value"])
      assert_equal "1 listed, 2 frequent", fact["reason"]
      supervisor.fork_worker
      seen = ["/list page=2", "/a ", "/b "].flat_map { |page| ["GET https localhost #{page}", "closed"] }
      assert_equal seen.inspect, supervisor.request.body
    end
  end

  def test_a_ruby_that_decides_about_major_collections_is_named
    boot(HELLO, out_of_band_gc: true) do |supervisor|
      said = booted(supervisor)["gems"].grep(/out_of_band_gc does nothing: Ruby/)
      assert_equal Highball::MajorCollections.supported? ? 0 : 1, said.size
    end
    boot(HELLO) { |supervisor| assert_empty booted(supervisor)["gems"].grep(/out_of_band_gc/) }
  end

  def test_nothing_is_said_of_a_warm_up_that_is_off
    boot(HELLO) do |supervisor|
      assert_empty(booted(supervisor)["runtime"].select { |option| option["name"] == "warm_up" })
    end
  end

  def test_a_warm_up_leaves_no_connection_of_active_record_behind
    config = <<~RUBY
      require "active_record"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: File.join(__dir__, "test.db"))
      run ->(_) { [200, {}, [ActiveRecord::Base.connection.select_value("select sqlite_version()")]] }
    RUBY
    boot(config, warm_up: ["/"]) do |supervisor|
      held = booted(supervisor)["held"]
      assert_empty held.grep(/SQLite|Active Record/), held
      supervisor.fork_worker
      assert_match(/\A3\./, supervisor.request.body)
    end
  end

  def test_workers_are_forked_and_answer
    boot(HELLO) do |supervisor|
      booted(supervisor)
      pids = [0, 1].map { |number| supervisor.fork_worker(number) }
      bodies = Array.new(20) { supervisor.request.body.to_i }
      assert_empty bodies - pids
    end
  end

  # Refuses as the kernel does, or as a hook may, until there is a file.
  REFUSED = <<~RUBY
    refuse = -> { File.exist?(File.join(__dir__, "may_fork")) or raise Errno::ENOMEM }
    Process.singleton_class.prepend(Module.new { define_method(:_fork) { refuse.call && super() } })
  RUBY

  def test_a_fork_that_fails_is_told_and_the_next_one_may_do
    hooks = 'before_fork { exit unless File.exist?(File.join(__dir__, "may_fork")) }'
    exits = { "hooks.rb" => hooks, "config.ru" => HELLO }
    { "Errno::ENOMEM: Cannot allocate memory" => { "config.ru" => REFUSED + HELLO },
      "SystemExit: exit" => exits }.each do |reason, files|
      FakeSupervisor.open(files) do |supervisor|
        booted(supervisor)
        2.times do |number|
          socket = supervisor.worker_socket(number)
          name, fields, = supervisor.message
          assert_equal ["NotForked", number], [name, fields["worker"]]
          assert fields["reason"].start_with?("#{reason}\n"), fields
          assert socket.wait_readable(FakeSupervisor::TIMEOUT), "the worker's socket is left open"
        end
        File.write(File.join(supervisor.folder, "may_fork"), "")
        pid = supervisor.fork_worker
        assert_equal pid, supervisor.request.body.to_i
      end
    end
  end

  def test_a_worker_that_cannot_be_told_of_is_ended
    refused = <<~'RUBY'
      Highball::Native.singleton_class.prepend(Module.new { def pidfd(pid) = raise("too many files: #{pid}") })
    RUBY
    boot(refused + HELLO) do |supervisor|
      booted(supervisor)
      supervisor.worker_socket
      name, fields, = supervisor.message
      assert_equal "NotForked", name
      pid = fields["reason"][/too many files: (\d+)/, 1].to_i
      assert_raises(Errno::ESRCH) { Process.kill(0, pid) }
    end
  end

  def test_a_worker_that_dies_is_reaped_and_told
    boot("run ->(_) { exit!(3) }") do |supervisor|
      booted(supervisor)
      pid = supervisor.fork_worker
      supervisor.front.publish
      assert_equal ["Exited", { "worker" => 0, "pid" => pid, "status" => "exit 3" }], supervisor.message.first(2)
      pid = supervisor.fork_worker(1)
      Process.kill("KILL", pid)
      assert_equal "signal 9 (KILL)", supervisor.message[1]["status"]
    end
  end

  def test_an_application_may_handle_the_ends_of_children_itself
    boot("trap('CHLD', 'IGNORE')\n#{HELLO}") do |supervisor|
      booted(supervisor)
      Process.kill("KILL", supervisor.fork_worker)
      assert_equal "Exited", supervisor.message.first
    end
  end

  def test_the_template_ends_with_the_control_socket
    boot(HELLO) do |supervisor|
      booted(supervisor)
      supervisor.hang_up
      # The front, this process, is still there: so are its listeners.
      assert supervisor.wait.success?
    end
  end

  def test_the_template_of_a_dead_front_removes_its_sockets_and_no_others
    Dir.mktmpdir do |folder|
      dead, alive = %w[dead alive].map { |name| File.join(folder, name) }
      UNIXServer.new(dead).close
      server = UNIXServer.new(alive)
      said = orphan_a_template(folder, [dead, alive, File.join(folder, "never")])
      assert_equal ["alive"], Dir.children(folder).grep(/dead|alive/), said + File.read(File.join(folder, "output.log"))
      server.close
    end
  end

  def test_a_worker_ends_with_its_control_socket_even_where_ruby_is_stuck
    boot("run ->(_) { Process.kill('STOP', 0) if false; /#{"(a*)*" * 6}b/.match?('a' * 40) && nil }") do |supervisor|
      booted(supervisor)
      pid = supervisor.fork_worker
      supervisor.front.publish
      supervisor.hang_up(0)
      assert_equal ["Exited", { "worker" => 0, "pid" => pid, "status" => "exit 0" }], supervisor.message.first(2)
    end
  end

  private

  # Starts a template from a process that then dies, and waits for the template's end.
  def orphan_a_template(folder, sockets)
    reader, writer = IO.pipe
    code = <<~RUBY
      require "test_helper"
      require "fake_supervisor"
      File.write("#{folder}/config.ru", #{HELLO.dump})
      supervisor = FakeSupervisor.new(#{folder.dump}, {}, sockets: #{sockets.inspect})
      $stdout.syswrite("booted: \#{supervisor.message.inspect}")
      Process.kill("KILL", Process.pid)
    RUBY
    # The template inherits the pipe's writing end, which so tells of its end.
    pid = spawn(RbConfig.ruby, "-I", __dir__, "-e", code, %i[out err] => writer, 9 => writer, close_others: false)
    writer.close
    Process.wait(pid)
    reader.read
  end
end
