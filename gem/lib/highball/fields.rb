# frozen_string_literal: true

require_relative "errors"
require_relative "rack_release"

module Highball
  # Header fields as applications return them. Rack 2 joins several values with newlines, Rack 3 has arrays.
  # The extension does the same for ordinary responses; this is for what takes another way.
  module Fields
    # What may not stand in a name or a value (RFC 9110, section 5.5): it would split the response.
    CONTROL = /[\r\n\0]/n

    # Whether several values are lines of one string.
    VALUES_ARE_LINES = (RACK_RELEASE <=> [3, 0]).negative?
    private_constant :VALUES_ARE_LINES

    class << self
      # Yields the name and value of each field, one per value. Fields named rack.* stay here: they are
      # between the application and its server.
      #
      # Raises InvalidResponse for what would split the response.
      def each(headers)
        headers.each do |name, values|
          name = name.to_s
          next if name.start_with?("rack.")

          each_value(values) do |value|
            raise InvalidResponse, "header #{name.inspect} has a control character" if control?(name) || control?(value)

            yield name, value
          end
        end
      end

      # The headers as the extension reads them, which runs no Ruby code: a Hash with strings, or arrays of strings, for
      # values. Where a name comes more than once in an enumeration, its values are put together.
      def hash(headers)
        raise InvalidResponse, "headers do not respond to each: #{headers.class}" unless headers.respond_to?(:each)

        hash = {}
        headers.each do |name, values|
          values = texts(values) unless name.to_s.start_with?("rack.")
          hash[name] = hash.key?(name) ? [*hash[name], *values] : values
        end
        hash
      end

      private

      def texts(values)
        return values if values.is_a?(String)

        values.respond_to?(:to_ary) ? values.to_ary.map { |value| String(value) } : String(values)
      end

      def each_value(values, &block)
        if values.respond_to?(:to_ary)
          values.to_ary.each { |value| each_value(value, &block) }
        elsif VALUES_ARE_LINES
          values.to_s.split("\n").each(&block)
        else
          yield values.to_s
        end
      end

      def control?(text)
        text.b.match?(CONTROL)
      end
    end
  end
end
