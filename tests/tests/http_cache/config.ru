require "net/http"


# Passes each request on to the origin of http-cache-tests.
run lambda { |env|
  headers = env.filter_map do |key, value|
    [key.delete_prefix("HTTP_").tr("_", "-"), value] if key.start_with?("HTTP_") && key != "HTTP_VERSION"
  end.to_h
  headers["Content-Type"] = env["CONTENT_TYPE"] if env["CONTENT_TYPE"]
  headers["Accept-Encoding"] ||= "identity"
  headers.delete("CONNECTION")
  target = env["PATH_INFO"] + (env["QUERY_STRING"].empty? ? "" : "?#{env['QUERY_STRING']}")
  method = env["REQUEST_METHOD"]
  body = env["rack.input"]&.read.to_s
  request = Net::HTTPGenericRequest.new(method, !body.empty?, method != "HEAD", target, headers)
  request.body = body unless body.empty?
  http = Net::HTTP.new("127.0.0.1", ENV.fetch("ORIGIN_PORT"))
  http.max_retries = 0
  answer = http.start { |connection| connection.request(request) }
  fields = answer.to_hash.except("keep-alive", "transfer-encoding")
  fields = fields.transform_values { |values| values.join("\n") }
  [answer.code.to_i, fields, answer.body ? [answer.body] : []]
}
