# frozen_string_literal: true

require "rackup/handler"
require_relative "../../highball/handler"

module Rackup
  # Where Rack 3 looks for servers.
  module Handler
    Highball = ::Highball::Handler
    register(:highball, Highball)
  end
end
