# frozen_string_literal: true

# Loads the application in the current folder as a server does, and prints what it is made of: a name and a version a line.
# Bundler first, where the application has it: the versions are then those of its Gemfile.lock.
require 'bundler/setup' if File.exist?('Gemfile')
require 'rack'

out = $stdout.dup
$stdout.reopen($stderr)
out.puts "ruby #{RUBY_VERSION}p#{RUBY_PATCHLEVEL}"
parsed = Rack::Builder.parse_file('config.ru')
raise 'config.ru names no application' unless parsed

{ 'rack' => -> { Rack.release },
  'rails' => -> { Rails.version },
  'sinatra' => -> { Sinatra::VERSION },
  'hanami' => -> { Hanami::VERSION },
  'roda' => -> { Roda::RodaVersion },
  'sqlite' => -> { SQLite3::SQLITE_VERSION },
  'mysql2' => -> { Mysql2::VERSION },
  'pg' => -> { PG::VERSION } }.each do |name, version|
  out.puts "#{name} #{version.call}"
rescue NameError
  next # not loaded by this application
end
out.flush
exit!(0) # an application's at_exit blocks are for a server's end
