# frozen_string_literal: true

# Answers alike in every process, save where a test asks for a process's own: its number, its environment.
run(lambda do |env|
  body = case env['PATH_INFO']
         when '/pid' then Process.pid.to_s
         when '/environment' then ENV.values_at('RACK_ENV', 'RAILS_ENV', 'STACK_TEST').join(' ')
         else 'Hello World'
         end
  [200, { 'content-type' => 'text/plain', 'content-length' => body.bytesize.to_s }, [body]]
end)
