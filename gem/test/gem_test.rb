# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "rbconfig"
require "tmpdir"

# The gem as its users get it, with a stand-in for the server.
class GemTest < Minitest::Test
  GEM = File.expand_path("..", __dir__)
  SERVER = "#!/bin/sh\necho \"$HIGHBALL_RUBY_LIB\" \"$@\"\n"

  def setup
    @folder = Dir.mktmpdir
    FileUtils.cp_r(%w[exe lib highball.gemspec].map { |name| File.join(GEM, name) }, @folder)
    @libexec = File.join(@folder, "libexec")
    Dir.mkdir(@libexec)
    Dir.mkdir(File.join(@folder, "lab"))
    FileUtils.cp_r(%w[apps stacks studies].map { |name| File.join(GEM, "../lab", name) }, File.join(@folder, "lab"))
    %w[highball highball-lab].each { |name| File.write(File.join(@libexec, name), SERVER, perm: 0o755) }
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_an_installed_gem_runs_the_server_with_its_own_ruby_files
    home = File.join(@folder, "home")
    run!("gem", "build", "--strict", "highball.gemspec", "--output", "highball.gem")
    run!({ "GEM_HOME" => home }, "gem", "install", "--local", "--no-document", "highball.gem")
    output = run!({ "GEM_HOME" => home }, File.join(home, "bin/highball"), "serve", "a b")
    library, arguments = output.split(" ", 2)
    assert_equal "serve a b\n", arguments
    assert library.start_with?(File.join(home, "gems/highball-"))
    assert File.exist?(File.join(library, "highball/template.rb"))
    assert File.exist?(File.join(library, "../lab/apps/hello/config.ru"))
    assert File.executable?(File.join(library, "../libexec/highball-lab"))
    script = 'require "highball"; require "highball/native"; Highball::Native.load; puts Highball::VERSION'
    assert_match(/\A\d+\.\d+\.\d+\n\z/, run!(RbConfig.ruby, "-I", library, "-e", script))
  end

  def test_an_installed_gem_that_lost_its_server_says_how_to_get_it_back
    home = File.join(@folder, "home")
    run!("gem", "build", "--strict", "highball.gemspec", "--output", "highball.gem")
    install = [{ "GEM_HOME" => home }, "gem", "install", "--force", "--local", "--no-document", "highball.gem"]
    run!(*install)
    FileUtils.rm(Dir[File.join(home, "{gems/*/libexec/highball,cache/*}")])
    output, status = Open3.capture2e({ "GEM_HOME" => home }, File.join(home, "bin/highball"))
    refute status.success?
    assert_match(/gem install --force highball/, output)
    run!(*install)
    assert_match(%r{/lib\b}, run!({ "GEM_HOME" => home }, File.join(home, "bin/highball")))
  end

  def test_a_checkout_without_the_server_is_told_to_build_it
    gem = File.join(@folder, "gem")
    Dir.mkdir(gem)
    FileUtils.mv(%w[exe lib highball.gemspec].map { |name| File.join(@folder, name) }, gem)
    output, status = Open3.capture2e(RbConfig.ruby, File.join(gem, "exe/highball"))
    refute status.success?
    assert_includes output, "run `make gem` in #{@folder}"
  end

  def test_a_gem_without_a_program_or_the_labs_data_is_not_built
    %w[libexec/highball libexec/highball-lab lab].each do |part|
      FileUtils.mv(File.join(@folder, part), File.join(@folder, "aside"))
      output, status = Open3.capture2e("gem", "build", "highball.gemspec", chdir: @folder)
      refute status.success?
      assert_match(/make gem/, output)
      FileUtils.mv(File.join(@folder, "aside"), File.join(@folder, part))
    end
  end

  # Gems that Ruby only bundles (logger, benchmark, ostruct and others, more with each release) may be missing from an
  # application's bundle. What is asked for by an application alone is asked for where it is there.
  def test_the_gem_needs_no_gem_that_ruby_only_bundles
    libraries = %w[io/nonblock ipaddr json rbconfig socket stringio]
    asked_for = %w[bundler byebug/core debug/session rack rack/builder rack/handler rack/utils rackup/handler]
    required = Dir[File.join(GEM, "lib/**/*.rb")].flat_map { |path| File.read(path).scan(/^\s*require "([^"]+)"/) }
    assert_empty required.flatten.uniq - libraries - asked_for
  end

  private

  def run!(*command)
    output, status = Open3.capture2e(*command, chdir: @folder)
    assert status.success?, output
    output
  end
end
