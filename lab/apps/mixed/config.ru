# frozen_string_literal: true

# Two kinds of request: /fast answers at once, /slow burns 50 ms of CPU first. CPU time and not wall
# time is counted, so that a slow request stays as expensive on a busy machine.
SLOW_SECONDS = 0.050
HEADERS = { 'content-type' => 'text/plain' }.freeze

burn = lambda do
  finish = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + SLOW_SECONDS
  count = 0
  count += 1 while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < finish
  count
end

run(lambda do |env|
  body =
    case env['PATH_INFO']
    when '/slow' then burn.call && 'slow'
    when '/fast' then 'fast'
    end
  next [404, HEADERS.dup, ['not found']] unless body

  [200, HEADERS.merge('content-length' => body.bytesize.to_s), [body]]
end)
