# frozen_string_literal: true

module Highball
  # Lines of backtraces as places in the code that stay the same: without line numbers, addresses of objects and
  # versions of gems, and in the words of all versions of Ruby. Reads no file.
  class CodeFrames
    # A line of a backtrace: Ruby 3.4 has another quotation mark.
    LINE = /\A(?<path>.+?):\d+(?::in [`'](?<name>.*)')?\z/m
    # Its file and line alone.
    POSITION = /\A.+?:\d+:/m
    # What Ruby puts before the name of a method: `block (2 levels) in `, `rescue in `.
    WITHIN = /\A(?:(?:block|rescue|ensure)(?: \(\d+ levels\))? in )+/
    # The class before the name of a method, since Ruby 3.4: `Order#total`, `Order.find`.
    OWNER = /\A.*?[#.](?=[^#.]+\z)/
    # What Action View puts behind the name of a template's method.
    TEMPLATE = /__+\d+(?:_\d+)?\z/
    # A file of a gem, wherever gems are.
    GEM = %r{\A.*/gems/(?<gem>[^/]+?)-\d[^/]*/(?<path>.+)\z}m

    # `folders` are those of the application.
    def initialize(folders)
      folders = folders.compact.map { |folder| folder.chomp("/") }
      real = folders.map { |folder| File.exist?(folder) ? File.realpath(folder) : folder }
      @folders = [*folders, *real].uniq.map { |folder| "#{folder}/" }
      @ruby = "#{RbConfig::CONFIG["rubylibdir"]}/"
      gems = defined?(::Gem) ? ::Gem.path : []
      @foreign = [*gems.map { |folder| "#{folder}/" }, *@folders.map { |folder| "#{folder}vendor/bundle/" }, @ruby]
    end

    # The first place in the application's own code, else in any: `app/models/order.rb:total`; empty if there is none.
    #
    # Methods in C have the line of the Ruby code that calls them, whose own name comes after theirs.
    def first(backtrace)
      index = backtrace.index { |one| own?(one) } || 0
      return "" unless backtrace[index]

      line = backtrace[index][POSITION]
      index += 1 while line && backtrace[index + 1]&.start_with?(line)
      place(backtrace[index])
    end

    # The line with the path of the application's own code relative to its folder.
    def relative(line)
      folder = @folders.find { |one| line.start_with?(one) }
      folder && own?(line) ? line.delete_prefix(folder) : line
    end

    # A text in which two objects of different processes look alike.
    def without_addresses(text)
      text.gsub(/0x\h{4,}/, "0x0")
    end

    private

    def own?(line)
      line.start_with?(*@folders) && !line.start_with?(*@foreign)
    end

    def place(line)
      found = LINE.match(line)
      return without_addresses(line) unless found

      path = relative(found[:path])
      if (gem = GEM.match(path))
        path = "#{gem[:gem]}/#{gem[:path]}"
      end
      name = found[:name] && method_name(found[:name])
      without_addresses([path.delete_prefix(@ruby), name].compact.join(":"))
    end

    def method_name(label)
      label.sub(WITHIN, "").sub(OWNER, "").sub(TEMPLATE, "")
    end
  end
end
