# frozen_string_literal: true

module Highball
  # The names of parameters whose values Rails keeps out of its log, for the server's log. Changes nothing.
  module FilterParameters
    # More names than these are left out, and so are longer ones.
    MOST = 256
    LONGEST = 64

    # The names in `config.filter_parameters`; none without Rails. Patterns and procs stay Rails' own: the server
    # compares names only.
    def self.names
      application = ::Rails.application if defined?(::Rails) && ::Rails.respond_to?(:application)
      return [] unless application.respond_to?(:config) && application.config.respond_to?(:filter_parameters)

      plain = Array(application.config.filter_parameters).select { |one| one.is_a?(String) || one.is_a?(Symbol) }
      plain.map(&:to_s).select { |name| name.bytesize.between?(1, LONGEST) }.first(MOST)
    end
  end
end
