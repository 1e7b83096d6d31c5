# frozen_string_literal: true

# Answers alike in every process, save where a test asks for a process's own: its number, its environment.
run(lambda do |env|
  status = 200
  body = case env['PATH_INFO']
         when '/' then 'Hello World'
         # Long enough for several to be in flight at once.
         when '/pid' then sleep(0.02) && Process.pid.to_s
         when '/environment' then ENV.values_at('RACK_ENV', 'RAILS_ENV', 'STACK_TEST').join(' ')
         else (status = 404) && 'not found'
         end
  [status, { 'content-type' => 'text/plain', 'content-length' => body.bytesize.to_s }, [body]]
end)
