# frozen_string_literal: true

require_relative "description"

# An application server for Ruby: a front in Rust, which owns the connections, and Ruby workers.
module Highball
  # What went wrong in Highball itself.
  class Error < StandardError; end

  # The application returned what no server can send: a wrong status, a header with a control character,
  # a body that is none. The client gets a 500, or a cut connection where the head is already out.
  class InvalidResponse < Error; end

  # The client does not read the response any more. This ends the iteration over a body; it is no error of the
  # application.
  class ClientGone < Error; end

  # Code writes to a response that has ended, or asks for its connection: it kept a body's block or a stream, or another
  # thread still writes. By then the worker's thread may run another client's request.
  class ResponseOver < Error; end

  # This process was forked from a worker by the application. It has nothing of the worker's: no request, no connection.
  class NotTheWorker < Error; end

  # The server has not answered that its response cache has forgotten something: what it has may be old.
  class PurgeFailed < Error; end

  # The server has not sent the body of a request, which lies in a file of its own.
  class BodyMissing < Error; end

  # The most causes of an exception that are described: a chain of causes may be a circle.
  CAUSES = 10
  private_constant :CAUSES

  # An exception as a text for the log: class and message in the first line, then the backtrace; then its causes.
  # Never raises, whatever the exception does.
  def self.describe(error)
    texts = []
    while Exception === error && texts.size < CAUSES
      first_line = "#{Description.class_name(error)}: #{Description.message(error)}"
      texts << [first_line, *Description.backtrace(error)].join("\n")
      error = Description.cause(error)
    end
    texts.join("\ncaused by ")
  end
end
