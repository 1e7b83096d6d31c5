# frozen_string_literal: true

module Highball
  # Ruby's M:N scheduler (RUBY_MN_THREADS=1, since Ruby 3.3), which runs threads of Ruby on a few native threads in
  # turn. The threads that run requests keep a native one each, see Native.keep_native_thread.
  module NativeThreads
    class << self
      # What is to be said of it, in sentences; nothing where it is off.
      def warnings
        # What decides is how Ruby was started: the application may have changed the variable since.
        return [] unless RUBY_DESCRIPTION.include?("+MN")

        # It changes nothing here: the main thread keeps its native one with every Ruby.
        return [KEPT] if Native.keep_native_thread

        [MOVED]
      end
    end

    KEPT = "RUBY_MN_THREADS is set: threads that run requests keep a native thread each all the same, so it brings " \
           "nothing for them; unset it"
    MOVED = "RUBY_MN_THREADS is set, and Ruby #{RUBY_VERSION} moves threads between native ones: CPU times of " \
            "requests and profiles are wrong; unset it, or use Ruby 3.4 or newer".freeze
    private_constant :KEPT, :MOVED
  end
end
