# frozen_string_literal: true

# There is no Gemfile: the libraries are Debian's, and each study's page is to cost Rails and not Bundler.
require 'rails'
require 'active_record/railtie'
require 'action_controller/railtie'
require 'action_view/railtie'

module Classics
  class Application < Rails::Application
    config.load_defaults 6.1
    config.time_zone = 'UTC'
    # Known to everybody: nothing here is secret, and every server must run the same application.
    config.secret_key_base = 'classics' * 16
  end
end
