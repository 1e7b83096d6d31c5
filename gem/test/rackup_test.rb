# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "rbconfig"
require "timeout"
require "tmpdir"

# `rackup -s highball` with the real server, where one is built.
class RackupTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  SERVER = ENV.fetch("HIGHBALL_BIN", File.join(ROOT, "target/release/highball"))

  def test_rackup_becomes_the_server
    assert File.executable?(SERVER), "no server is built: run make build"
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), "run ->(_) { [200, {}, ['served']] }")
      reader, writer = IO.pipe
      rackup = %w[-S rackup -s highball -o 127.0.0.1 -p 0]
      command = [RbConfig.ruby, "-I", File.join(ROOT, "gem/lib"), *rackup]
      variables = { "HIGHBALL_BIN" => SERVER, "HIGHBALL_RUBY_LIB" => File.join(ROOT, "gem/lib") }
      pid = spawn(variables, *command, chdir: folder, out: writer)
      writer.close
      begin
        assert_equal "served", Net::HTTP.get(URI(address(reader)))
      ensure
        Process.kill("TERM", pid)
        assert Timeout.timeout(20) { Process.wait2(pid).last.success? }
      end
    end
  end

  private

  def address(reader)
    Timeout.timeout(30) do
      lines = reader.each_line.lazy
      found = lines.filter_map { |line| line[/\Alistening on (http:\S+)/, 1] }.first
      lines.find { |line| line.start_with?("ready:") }
      found
    end
  end
end
