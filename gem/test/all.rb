# frozen_string_literal: true

# Runs every test: `ruby gem/test/all.rb`.

$LOAD_PATH.unshift(__dir__)
Dir[File.join(__dir__, "*_test.rb")].each { |file| require file }
