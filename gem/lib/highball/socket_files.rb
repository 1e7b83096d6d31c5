# frozen_string_literal: true

require "socket"

module Highball
  # Socket files of a front that died without removing them.
  module SocketFiles
    # How long to wait for a front that is being killed to be gone altogether, in seconds.
    FRONT_GONE_TIMEOUT = 5

    # Between two looks whether it is gone, in seconds.
    CHECK_INTERVAL = 0.01

    # Where /proc/PID/stat has the number of threads, counted from the field after the state (proc_pid_stat(5)).
    THREADS_FIELD = 16
    private_constant :THREADS_FIELD

    class << self
      # Waits until `front` is gone, or only waits to be reaped: then its listeners are closed. False after
      # FRONT_GONE_TIMEOUT.
      def wait_for_death_of(front)
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + FRONT_GONE_TIMEOUT
        until dead?(front)
          return false if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

          sleep(CHECK_INTERVAL)
        end
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

      # Its threads end one after another, and the last one closes its files. The first one may be a zombie by then, as
      # which the kernel shows the process, and children may have another parent.
      def dead?(pid)
        state, *fields = File.read("/proc/#{pid}/stat")[/.*\) (.*)/m, 1].split
        %w[Z X].include?(state) && fields[THREADS_FIELD].to_i <= 1
      rescue SystemCallError
        true
      end

      def remove(path)
        File.unlink(path)
      rescue SystemCallError => error
        warn("highball: cannot remove the socket file #{path}: #{error.message}; remove it by hand")
      end
    end
  end
end
