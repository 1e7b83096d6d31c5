# frozen_string_literal: true

require_relative "errors"

module Highball
  # Header fields as applications return them. Rack 2 joins several values with newlines, Rack 3 has arrays.
  # The extension does the same for ordinary responses; this is for what takes another way.
  module Fields
    # What may not stand in a name or a value (RFC 9110, section 5.5): it would split the response.
    CONTROL = /[\r\n\0]/n

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

      # The headers as a Hash, which is what the extension reads. Where a name comes more than once in
      # an enumeration, its values are put together.
      def hash(headers)
        return headers if headers.is_a?(Hash)
        raise InvalidResponse, "headers do not respond to each: #{headers.class}" unless headers.respond_to?(:each)

        headers.each_with_object({}) do |(name, values), hash|
          hash[name] = hash.key?(name) ? [*hash[name], *values] : values
        end
      end

      private

      def each_value(values, &block)
        if values.respond_to?(:to_ary)
          values.to_ary.each { |value| each_value(value, &block) }
        else
          values.to_s.split("\n").each(&block)
        end
      end

      def control?(text)
        text.b.match?(CONTROL)
      end
    end
  end
end
