# frozen_string_literal: true

module Highball
  # Version of the gem, the binary and the extension alike.
  VERSION = "0.1.0"
end
