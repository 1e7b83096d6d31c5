# frozen_string_literal: true

require "rack/handler"
require_relative "../../highball/handler"

module Rack
  # Where Rack 2 looks for servers.
  module Handler
    # See Highball::Handler.
    module Highball
      extend ::Highball::Handler
    end

    register("highball", "Rack::Handler::Highball")
  end
end
