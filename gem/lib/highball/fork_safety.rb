# frozen_string_literal: true

require "socket"
require_relative "known_libraries"

module Highball
  # What a fork would lose or share of what this process holds, in sentences: threads, sockets, files open for
  # writing, Active Record's connections. It changes nothing;
  # docs/fork-safety.md says what to do about each.
  module ForkSafety
    # The most sentences that are reported.
    LIMIT = 50

    SQLITE_MAGIC = "SQLite format 3\0"
    private_constant :SQLITE_MAGIC

    class << self
      # What is held now; `own` are the descriptors that the server itself has, `own_threads` its threads.
      def held(own, own_threads = [])
        sentences = threads(own_threads) + descriptors(own) + active_record
        return sentences if sentences.size <= LIMIT

        sentences.first(LIMIT) << "... and #{sentences.size - LIMIT} more"
      end

      # What a template that this worker forks would lack of its threads; `own_threads` are the server's.
      def lost_threads(own_threads)
        lost = named_threads(own_threads).map do |thread|
          "#{thread} does not exist in a template that is forked from a worker: start it in after_fork"
        end
        lost.first(LIMIT)
      end

      private

      def threads(own)
        named_threads(own).map do |thread|
          "#{thread} while the application was loaded does not exist in the workers: start it in after_fork instead"
        end
      end

      def named_threads(own)
        (Thread.list - [Thread.main, *own]).reject { |thread| KnownLibraries.of_thread(thread) }.map do |thread|
          name = " #{thread.name.inspect}" if thread.name
          "thread#{name} started at #{KnownLibraries.place(thread) || "an unknown place"}"
        end
      end

      # From the kernel and not from Ruby's objects: clients in C have descriptors that Ruby does not know.
      def descriptors(own)
        numbers = Dir.children("/proc/self/fd").map(&:to_i).sort
        (numbers - [0, 1, 2, *own]).filter_map { |number| descriptor(number) }
      rescue SystemCallError
        []
      end

      def descriptor(number)
        path = File.readlink("/proc/self/fd/#{number}")
        return socket(number) if path.start_with?("socket:")

        file(number, path) if path.start_with?("/") && !path.start_with?("/dev/", "/memfd:", "/proc/")
      rescue SystemCallError
        # It has been closed meanwhile.
        nil
      end

      def socket(number)
        socket = Socket.for_fd(number)
        socket.autoclose = false
        local = socket.local_address
        return unless local.ip? || local.unix?

        "#{connection(socket, local)} was opened while the application was loaded, and all workers share it: close " \
          "it in before_fork, or open it in after_fork"
      end

      def connection(socket, local)
        return "a socket that listens on #{local.inspect_sockaddr}" if listens?(socket)

        peer = socket.remote_address
        peer.unix? && peer.unix_path.empty? ? "a UNIX socket pair" : "a connection to #{peer.inspect_sockaddr}"
      rescue Errno::ENOTCONN
        "a socket on #{local.inspect_sockaddr}"
      end

      def listens?(socket)
        socket.getsockopt(:SOCKET, :ACCEPTCONN).bool
      end

      def file(number, path)
        flags = File.read("/proc/self/fdinfo/#{number}")[/^flags:\s*(\d+)/, 1].to_i(8)
        return if (flags & (File::WRONLY | File::RDWR)).zero? || flags & File::APPEND != 0 || !File.file?(path)
        # Active Record opens its own again in each worker; they are reported with its connections.
        return "the SQLite database #{path} is open: open it again in after_fork" if sqlite?(path)

        "the file #{path} is open for writing, and all workers share its position: open it for appending, or in " \
          "after_fork"
      end

      def sqlite?(path)
        File.binread(path, SQLITE_MAGIC.bytesize) == SQLITE_MAGIC
      end

      def active_record
        return [] unless defined?(::ActiveRecord::Base)

        count = ::ActiveRecord::Base.connection_handler.connection_pool_list.sum { |pool| pool.connections.size }
        return [] if count.zero?

        ["Active Record holds #{count} of the connections above; each worker opens its own: nothing is to be done"]
      rescue StandardError
        # Another version has another interface; its connections are among the sockets and files.
        []
      end
    end
  end
end
