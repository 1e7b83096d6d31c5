# frozen_string_literal: true

# What a server does with bodies and files, apart from what an application costs. /upload takes a request body. The files
# below public/ are the application's where no server before it sends them.
require 'rack/files'

PUBLIC = File.join(__dir__, 'public')
MEGABYTE = ('x' * 1_000_000).freeze
FILES = Rack::Files.new(PUBLIC)
ITEMS = 1_000

text = ->(body) { [200, { 'content-type' => 'text/plain', 'content-length' => body.bytesize.to_s }, [body]] }

list = lambda do
  items = (1..ITEMS).map { |item| "      <li>#{item}</li>\n" }
  body = "<html>\n  <body>\n    <ul>\n#{items.join}    </ul>\n  </body>\n</html>\n"
  fields = { 'content-type' => 'text/html', 'content-length' => body.bytesize.to_s,
             'cache-control' => 'public, max-age=3600' }
  [200, fields, [body]]
end

run(lambda do |env|
  case env['PATH_INFO']
  when '/' then text.call('Hello World')
  when '/megabyte' then text.call(MEGABYTE)
  when '/list' then list.call
  when '/upload' then text.call(env['rack.input'].read.bytesize.to_s)
  when '/file' then FILES.call(env.merge('PATH_INFO' => '/large.bin'))
  else FILES.call(env)
  end
end)
