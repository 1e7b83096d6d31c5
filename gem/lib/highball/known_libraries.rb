# frozen_string_literal: true

module Highball
  # Libraries whose behaviour after a fork is known: gems that do not survive one by themselves, and those that start
  # their threads again. It changes nothing.
  module KnownLibraries
    # Gems that keep threads or connections of their own, and what their authors recommend.
    GEMS = {
      "bunny" => "open its connections in after_fork",
      "gobject-introspection" => "use it in after_fork only",
      "grpc" => "create its clients in after_fork, or set GRPC_ENABLE_FORK_SUPPORT=1 and call GRPC.prefork and " \
                "GRPC.postfork_child in the hooks",
      "mini_racer" => "call MiniRacer::Platform.set_flags!(:single_threaded) first, or create contexts in after_fork",
      "mongo" => "call Mongo::Client#close in before_fork and #reconnect in after_fork",
      "newrelic_rpm" => "call NewRelic::Agent.after_fork(force_reconnect: true) in after_fork",
      "rdkafka" => "create its producers and consumers in after_fork",
      "ruby-kafka" => "create its producers and consumers in after_fork",
      "ruby-vips" => "process no image while the application is loaded",
      "sequel" => "call DB.disconnect in before_fork"
    }.freeze

    # Those of them that have threads of their own, or locks in C, as soon as requests have used them, so that a process
    # that has served must not be forked: no hook can help there.
    NO_REFORK = %w[gobject-introspection grpc mini_racer rdkafka ruby-kafka ruby-vips].freeze

    # Libraries that start their threads again after a fork: where these threads were started.
    RESTARTED = {
      "Active Record" => %r{/active_record/connection_adapters/},
      "concurrent-ruby" => %r{/concurrent/},
      "debug" => %r{/debug(?:-[\d.]+)?/(?:lib/debug/)?session\.rb:},
      "timeout" => %r{/timeout\.rb:}
    }.freeze

    class << self
      # What is known of the loaded libraries, a sentence each.
      def sentences
        gems = GEMS.slice(*Gem.loaded_specs.keys).map do |name, advice|
          advice += "; re-forking is refused with it" if NO_REFORK.include?(name)
          "gem #{name} #{Gem.loaded_specs[name].version} does not survive a fork by itself: #{advice}"
        end
        restarted = Thread.list.filter_map { |thread| of_thread(thread) }.uniq.join(", ")
        return gems if restarted.empty?

        gems << "threads of #{restarted} are started again in each worker by themselves: nothing is to be done"
      end

      # Why this process must not be forked once it has served requests, a sentence each.
      def refork_obstacles
        Gem.loaded_specs.slice(*NO_REFORK).map do |name, spec|
          "gem #{name} #{spec.version} does not survive a fork of a process that has served requests"
        end
      end

      # The library that started a thread, and starts it again after a fork; nil for other threads.
      def of_thread(thread)
        RESTARTED.find { |_, pattern| place(thread)&.match?(pattern) }&.first
      end

      # Where a thread was started. Thread#inspect: #<Thread:0x000071c3@name /path/to/file.rb:12 sleep_forever>
      def place(thread)
        text = thread.inspect
        text = text.sub("@#{thread.name}", "") if thread.name
        text[/\A#<Thread:0x\h+ (.+:\d+) [^:]*>\z/m, 1]
      end
    end
  end
end
