# frozen_string_literal: true

# What an application may require: the version and the errors. Loading this starts nothing and loads no
# native code; that happens in the template process alone (highball/template.rb).

require_relative "highball/version"
require_relative "highball/errors"
