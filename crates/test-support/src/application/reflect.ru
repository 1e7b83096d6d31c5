# Tells each call, and answers with what the application was given.
require "json"
run lambda { |env|
  Test.tell("#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}")
  latin = ->(text) { text.b.force_encoding("ISO-8859-1").encode("UTF-8") }
  body = Test.input(env)
  texts, others = env.partition { |_, value| value.is_a?(String) }
  answer = {
    env: texts.to_h { |key, value| [latin.(key), latin.(value)] },
    classes: others.to_h { |key, value| [key, value.class.name] },
    body: latin.(body)
  }
  [200, { "content-type" => "application/json", "x-app" => "1" }, [JSON.generate(answer)]]
}
