# frozen_string_literal: true

# The smallest application there is: what a server itself costs.
BODY = 'Hello World'
HEADERS = { 'content-type' => 'text/plain', 'content-length' => BODY.bytesize.to_s }.freeze

run ->(_env) { [200, HEADERS.dup, [BODY]] }
