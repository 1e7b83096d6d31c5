# frozen_string_literal: true

# An application that uses Rack::Lint alone would miss what this loads.
require "rack/utils"
require "socket"
require_relative "errors"
require_relative "fields"

module Highball
  # The client's connection, as one request sees it: `rack.hijack` and `rack.early_hints` are both this one
  # object, which is made for every request and so should cost little.
  class Connection
    # The extension makes these without calling `initialize`.
    def initialize(worker_thread, env)
      @worker_thread = worker_thread
      @env = env
    end

    # With headers it is `rack.early_hints`, without it is `rack.hijack`.
    def call(headers = nil)
      headers ? hint(headers) : take_over
    end

    # Takes the connection away from the front: from then on the application speaks with the client through
    # the socket that this returns, and writes the whole HTTP response itself. The same one for every call.
    #
    # Raises ResponseOver once the request is over: its connection may serve another one by then.
    def take_over
      return @io if @io

      claim = @worker_thread.claim_of(@env)
      raise ResponseOver, "rack.hijack was called after its request ended" unless claim

      @io = @env["rack.hijack_io"] = Connection.take_over(@worker_thread, claim)
    end

    # Sends a 103 with these headers (RFC 8297). Does nothing once the request is over: a hint must never
    # reach another one.
    def hint(headers)
      claim = @worker_thread.claim_of(@env)
      @worker_thread.hints(claim, Fields.hash(headers)) if claim
      nil
    end

    # Between two looks at the connections that were taken over, in seconds.
    CHECK_INTERVAL = 0.05

    # What the application drops without closing it goes when Ruby collects it.
    @taken = ObjectSpace::WeakMap.new

    class << self
      # Splices the connection of the request that the claim stands for with a new socket, whose other end
      # this returns.
      def take_over(worker_thread, claim)
        ours, theirs = UNIXSocket.pair
        worker_thread.hijack(claim, theirs.fileno)
        theirs.close
        @taken[ours] = true
        ours
      end

      # Waits until the application or the front has closed every connection that was taken over: the
      # application's own threads may still be talking over them.
      def wait_until_closed
        sleep(CHECK_INTERVAL) while @taken.keys.any? { |io| !io.closed? && !Native.hung_up?(io.fileno) }
      end

      # The head of a response that the application goes on with. The connection serves no other request
      # afterwards, which `Connection: close` tells the client, unless it is upgraded (RFC 9110, section 15.2.2)
      # or the application says otherwise.
      #
      # Raises InvalidResponse for what would split the response.
      def head(status, headers)
        lines = "HTTP/1.1 #{status} #{::Rack::Utils::HTTP_STATUS_CODES[status]}\r\n".b
        kept = false
        Fields.each(headers) do |name, value|
          kept ||= name.casecmp?("connection")
          lines << name.b << ": " << value.b << "\r\n"
        end
        lines << "Connection: #{status == 101 ? "Upgrade" : "close"}\r\n" unless kept
        lines << "\r\n"
      end
    end
  end
end
