# frozen_string_literal: true

require "socket"

module Highball
  # Socket files of a front that died without removing them.
  module SocketFiles
    # How long to wait for a front that is being killed to be gone altogether, in seconds.
    FRONT_GONE_TIMEOUT = 5

    # Between two looks whether it is gone, in seconds.
    CHECK_INTERVAL = 0.01

    class << self
      # Waits until this process's parent `front` is gone. False after FRONT_GONE_TIMEOUT.
      #
      # The kernel closes a dying process's files one after another. The process is gone, and its listeners with it,
      # once its children have another parent.
      def wait_for_end_of(front)
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + FRONT_GONE_TIMEOUT
        while Process.ppid == front
          return false if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

          sleep(CHECK_INTERVAL)
        end
        true
      end

      # Waits until `front`, which is not this process's parent, is gone, or only waits to be reaped: then its listeners
      # are closed. False after FRONT_GONE_TIMEOUT.
      def wait_for_death_of(front)
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + FRONT_GONE_TIMEOUT
        until File.read("/proc/#{front}/stat")[/.*\) (.)/m, 1].match?(/[ZX]/)
          return false if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

          sleep(CHECK_INTERVAL)
        end
        true
      rescue SystemCallError
        true
      end

      # Removes the socket files on which no process listens. Those of a server that has taken over are kept.
      def remove_dead(paths)
        paths.each do |path|
          UNIXSocket.new(path).close
        rescue Errno::ECONNREFUSED
          remove(path)
        rescue SystemCallError
          next
        end
      end

      private

      def remove(path)
        File.unlink(path)
      rescue SystemCallError => error
        warn("highball: cannot remove the socket file #{path}: #{error.message}; remove it by hand")
      end
    end
  end
end
