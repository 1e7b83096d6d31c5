# frozen_string_literal: true

require "rackup/handler"
require_relative "../../highball/handler"

module Rackup
  # Where Rack 3 looks for servers.
  module Handler
    # See Highball::Handler.
    module Highball
      extend ::Highball::Handler
    end

    register(:highball, Highball)
  end
end
