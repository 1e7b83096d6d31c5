# frozen_string_literal: true

module Highball
  # Major and minor number of the application's Rack, whose SPEC is followed. Loaded after the application, which
  # decides on it.
  RACK_RELEASE = ::Rack.release.split(".").first(2).map(&:to_i).freeze
end
