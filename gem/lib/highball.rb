# frozen_string_literal: true

# What an application may require, as Bundler does: the version and the errors. Loading this starts nothing and loads no
# native code; that happens in the template process alone (highball/template.rb). In `rails server` and `rackup` it
# makes Highball the server that they find.

require_relative "highball/version"
require_relative "highball/errors"
require_relative "highball/exceptions"
require_relative "highball/metrics"
require_relative "highball/purges"
require_relative "highball/default_handler"

Highball::DefaultHandler.choose
