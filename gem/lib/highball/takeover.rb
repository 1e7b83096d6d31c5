# frozen_string_literal: true

require "rack/utils"
require "socket"
require_relative "errors"
require_relative "fields"

module Highball
  # `rack.hijack` of one request. Its call takes the connection away from the front: from then on the
  # application speaks with the client through a socket, and writes the whole HTTP response itself.
  class Hijack
    # The extension makes these without calling `initialize`.
    def initialize(seat, env)
      @seat = seat
      @env = env
    end

    # The socket, also in `rack.hijack_io`; the same one for every call.
    #
    # Raises Error once the request is over: its connection may serve another one by then.
    def call
      return @io if @io

      raise Error, "rack.hijack was called after its request ended" unless @seat.runs?(@env)

      @io = @env["rack.hijack_io"] = Hijack.take_over(@seat)
    end

    # Splices the client's connection with a new socket, whose other end this returns.
    def self.take_over(seat)
      ours, theirs = UNIXSocket.pair
      seat.hijack(theirs.fileno)
      theirs.close
      ours
    end

    # Writes the head of a response for a partial hijack. The connection serves no other request
    # afterwards, which `Connection: close` tells the client, unless the application says otherwise
    # (as it does with `Connection: Upgrade`).
    def self.write_head(io, status, headers)
      status = status.to_i
      lines = +"HTTP/1.1 #{status} #{REASONS[status]}\r\n"
      connection = false
      Fields.each(headers) do |name, value|
        connection ||= name.casecmp?("connection")
        lines << name << ": " << value << "\r\n"
      end
      lines << "Connection: close\r\n" unless connection
      io.write(lines << "\r\n")
      io.flush
    end

    # Reason phrases, which HTTP/1.1 clients ignore (RFC 9112, section 4); those of `Rack::Utils`.
    REASONS = Hash.new { |_, status| ::Rack::Utils::HTTP_STATUS_CODES.fetch(status, "") }
  end

  # `rack.early_hints` of one request: sends a 103 with the given headers (RFC 8297).
  class EarlyHints
    # The extension makes these without calling `initialize`.
    def initialize(seat, env)
      @seat = seat
      @env = env
    end

    # Does nothing once the request is over: a hint must never reach another request.
    def call(headers)
      @seat.hints(Fields.hash(headers)) if @seat.runs?(@env)
      nil
    end
  end
end
