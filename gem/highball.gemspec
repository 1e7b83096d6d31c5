# frozen_string_literal: true

require_relative "lib/highball/version"

# A gem for one platform and one Ruby: the server, the lab and the extension are in it, built. `make gem` builds them
# first.
Gem::Specification.new do |spec|
  spec.name = "highball"
  spec.version = Highball::VERSION
  spec.summary = "An application server for Ruby with a front in Rust"
  spec.description = "Serves Rack applications: one process in place of a proxy, a balancer, a cluster of servers " \
                     "and its monitor. Slow clients never hold Ruby, and no worker idles while a request waits."
  spec.authors = ["The Highball authors"]
  spec.license = "MIT"
  spec.homepage = "https://github.com/highball/highball"
  spec.platform = Gem::Platform.local

  built = Dir.chdir(__dir__) { Dir["lib/highball/[0-9]*/highball.so"] }
  abis = built.map { |path| Gem::Version.new("#{path[/\d+\.\d+/]}.0") }.sort
  # What the lab compares, and on what: data that its program finds beside its own folder.
  lab = Dir.chdir(__dir__) { Dir["lab/{apps,stacks,studies}/**/{*,.*}"].select { |path| File.file?(path) } }
  programs = %w[libexec/highball libexec/highball-lab]
  unless abis.any? && lab.any? && programs.all? { |path| File.executable?(File.join(__dir__, path)) }
    raise Gem::InvalidSpecificationException, "the server, its extension or the lab is missing; run `make gem`"
  end

  spec.required_ruby_version = [">= #{abis.first}", "< #{abis.last.bump}.dev"]

  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.rb"] } + built + lab + programs + ["exe/highball"]
  spec.bindir = "exe"
  spec.executables = ["highball"]
  spec.require_paths = ["lib"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
