# frozen_string_literal: true

module Highball
  # What a report says of a request: route, parameters and some fields, without secrets and of bounded size. Reads no
  # body that the application has not read itself.
  class RequestDetails
    # The fields that are reported: none by which somebody is known or trusted.
    HEADERS = {
      "HTTP_HOST" => "Host", "HTTP_USER_AGENT" => "User-Agent", "HTTP_ACCEPT" => "Accept",
      "HTTP_ACCEPT_LANGUAGE" => "Accept-Language", "HTTP_ORIGIN" => "Origin", "HTTP_REFERER" => "Referer",
      "HTTP_X_REQUESTED_WITH" => "X-Requested-With", "CONTENT_TYPE" => "Content-Type",
      "CONTENT_LENGTH" => "Content-Length"
    }.freeze
    # The most bytes of a value, entries of a list and levels of nesting.
    VALUE_BYTES = 256
    ENTRIES = 50
    LEVELS = 4
    # What takes the place of a secret.
    FILTERED = "[FILTERED]"
    # What takes the place of parameters that the filter could not look at.
    NOT_FILTERED = { "(left out)" => "the filter of parameters raises" }.freeze

    # `names` are parts of the names of secret parameters.
    def initialize(names)
      @names = names
      @pattern = Regexp.union(names.map { |name| /#{Regexp.escape(name)}/i }) unless names.empty?
    end

    # The route by which the application knows the request, or an empty text.
    def route(env)
      pattern = env["action_dispatch.route_uri_pattern"] || rails_route(env["action_dispatch.route"])
      return pattern.to_s.delete_suffix("(.:format)") if pattern

      names = env["action_dispatch.request.path_parameters"]
      return "#{names[:controller]}##{names[:action]}" if names.is_a?(Hash) && names[:controller]

      env["sinatra.route"].to_s
    rescue StandardError
      ""
    end

    # The parameters, as far as the application knows them.
    def parameters(env)
      known = env["action_dispatch.request.parameters"]
      known ||= { **query(env), **form(env) }
      filtered(known, env)
    end

    # A Hash of the application without the values that have secret names.
    def filtered(hash, env = {})
      hash = hash.to_unsafe_h if hash.respond_to?(:to_unsafe_h)
      bounded(filter(hash.to_h, env))
    rescue StandardError
      NOT_FILTERED
    end

    # The fields.
    def headers(env)
      HEADERS.each_with_object({}) do |(key, name), headers|
        value = env[key]
        next if value.nil? || value == ""

        # The query of the page before may have secrets.
        value = value.to_s[/\A[^?#]*/] if name == "Referer"
        headers[name] = text(value)
      end
    end

    private

    def rails_route(route)
      route.path.spec.to_s if route.respond_to?(:path)
    end

    def query(env)
      known = env["rack.request.query_hash"]
      return known.to_h if known

      ::Rack::Utils.parse_nested_query(env["QUERY_STRING"].to_s).to_h
    rescue StandardError
      {}
    end

    def form(env)
      form = env["action_dispatch.request.request_parameters"] || env["rack.request.form_hash"]
      form.is_a?(Hash) ? form.to_h : {}
    end

    # By Rails' own filter where there is one, with the names of the server's settings.
    def filter(hash, env)
      rules = env["action_dispatch.parameter_filter"]
      if defined?(::ActiveSupport::ParameterFilter)
        rules ||= rails_rules
        return ::ActiveSupport::ParameterFilter.new([*rules, *@names]).filter(hash)
      end
      by_names(hash, LEVELS)
    end

    def rails_rules
      application = ::Rails.application if defined?(::Rails) && ::Rails.respond_to?(:application)
      application ? application.config.filter_parameters : []
    end

    def by_names(value, levels)
      case value
      when Hash
        value.to_h do |name, inner|
          secret = @pattern&.match?(name.to_s)
          [name, secret ? FILTERED : by_names(inner, levels - 1)]
        end
      when Array
        value.map { |inner| by_names(inner, levels - 1) }
      else
        value
      end
    end

    def bounded(value, levels = LEVELS)
      case value
      when Hash
        return "{...}" if levels.zero?

        value.first(ENTRIES).to_h { |name, inner| [text(name), bounded(inner, levels - 1)] }
      when Array
        levels.zero? ? "[...]" : value.first(ENTRIES).map { |inner| bounded(inner, levels - 1) }
      when Integer then number(value)
      when true, false, nil then value
      when String, Symbol, Float then text(value)
      else "(#{Description.class_name(value)})"
      end
    end

    # The front reads no larger ones.
    def number(value)
      value.bit_length < 64 ? value : "(a large number)"
    end

    def text(value)
      text = Description.utf8(value.to_s)
      text.bytesize > VALUE_BYTES ? "#{text.byteslice(0, VALUE_BYTES).scrub("")}..." : text
    end
  end
end
