# frozen_string_literal: true

require "ipaddr"
require_relative "errors"

module Highball
  # The answer to an error of the application in development: a page with message, source and backtrace for browsers, a
  # text for others. It is for developers alone: a client gets it whose address is private or loopback, that asks for a
  # host which no public name can be, and that no proxy without trust speaks for. Everything that the application or a
  # client wrote is escaped. Errors that the application rescues, as Rails does, do not come
  # here.
  class ErrorPage
    # Lines of source before and after the one that raised.
    CONTEXT = 6

    # The most bytes of a file that are read for its source.
    SOURCE_BYTES = 1 << 20

    # Frames of the application whose source is shown.
    SOURCES = 20

    # More frames in a row that are not the application's are folded.
    SHOWN_OUTSIDE = 3

    # A line of a backtrace, in all versions of Ruby.
    FRAME = /\A(?<path>.+?):(?<line>\d+)(?::in [`'](?<name>.*)')?\z/m

    HEADERS = {
      "cache-control" => "no-store",
      "content-security-policy" => "default-src 'none'; style-src 'unsafe-inline'",
      "x-content-type-options" => "nosniff"
    }.freeze

    # Hosts of this machine and its network: names that are no public ones (RFC 6761), or have no dot.
    LOCAL_HOST = /\A(?:[^.]+|.+\.(?:localhost|test))\.?\z/i

    # Where proxies write the address of the client.
    FORWARDED = %w[HTTP_X_FORWARDED_FOR HTTP_X_REAL_IP HTTP_FORWARDED].freeze

    STYLE = <<~CSS
      :root { color-scheme: light dark; --back: #fff; --text: #1c1e21; --dim: #636a73; --line: #d9dde2;
        --soft: #f4f6f8; --mark: #ffe9e6; --accent: #b3261e; }
      @media (prefers-color-scheme: dark) { :root { --back: #16181b; --text: #e6e8eb; --dim: #9aa2ac; --line: #33383e;
        --soft: #1f2226; --mark: #4a2320; --accent: #ff8a80; } }
      * { box-sizing: border-box; }
      body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 3rem; background: var(--back); color: var(--text);
        font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
      header { border-left: .3rem solid var(--accent); padding-left: 1rem; }
      h1 { margin: 0; font-size: 1.3rem; color: var(--accent); }
      h2 { margin: 2rem 0 .5rem; font-size: 1rem; }
      p { margin: .25rem 0; }
      .message { font-size: 1.1rem; white-space: pre-wrap; }
      .dim, .dim code { color: var(--dim); }
      code, pre { font: .85rem/1.55 ui-monospace, monospace; }
      pre { margin: .25rem 0 .75rem; border: 1px solid var(--line); border-radius: .4rem; background: var(--soft);
        overflow-x: auto; padding: .5rem 0; }
      pre span { display: block; min-width: max-content; padding: 0 .75rem; }
      pre .here { background: var(--mark); font-weight: 600; }
      ol { margin: 0; padding: 0; list-style: none; }
      li { padding: .15rem 0; }
      li ol { padding-left: 1rem; }
      summary { cursor: pointer; }
      li.dim summary { font-size: .85rem; }
      footer { margin-top: 2rem; font-size: .85rem; }
    CSS
    private_constant :FORWARDED, :LOCAL_HOST, :STYLE

    # A line of a backtrace: its text and, where it names them, file, line and method.
    Frame = Struct.new(:text, :path, :line, :name)

    # `folder` is the application's: source is shown of its files alone.
    def initialize(folder)
      @folder = "#{File.realpath(folder)}/"
    end

    # Answers the request with the page; `text` describes the error for the log. Returns false, with nothing said, where
    # the client may not see it, or where the response has begun.
    def deliver(worker_thread, env, error, text)
      claim = worker_thread.claim_of(env)
      return false unless claim && local?(env)

      type, page = html?(env) ? ["text/html", html(env, error)] : ["text/plain", plain(text)]
      headers = { **HEADERS, "content-type" => "#{type}; charset=utf-8", "content-length" => page.bytesize.to_s }
      worker_thread.head(claim, 500, headers)
      worker_thread.chunk(claim, page) unless env["REQUEST_METHOD"] == "HEAD"
      worker_thread.finish_with_error(claim, text)
      true
    rescue StandardError, ScriptError
      # The response has begun, or its client has left: as without a page.
      false
    end

    # The page for browsers.
    def html(env, error)
      name = escape(Description.class_name(error))
      request = escape(Description.utf8("#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}"))
      <<~HTML
        <!DOCTYPE html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>#{name} at #{request}</title>
        <style>#{STYLE}</style>
        <header>
        <h1>#{name}</h1>
        <p class="message">#{escape(Description.message(error))}</p>
        <p class="dim"><code>#{request}</code></p>
        </header>
        <main>
        #{errors_with_causes(error).each_with_index.map { |one, index| section(one, index) }.join}
        </main>
        <footer class="dim"><p>Highball shows this page in development only.</p></footer>
        </html>
      HTML
    end

    private

    # The page for other clients: what is in the log.
    def plain(text)
      "500 Internal Server Error\n\n#{text}\n"
    end

    def html?(env)
      env["HTTP_ACCEPT"].to_s.include?("text/html")
    end

    # Whether the client is on this machine or in its network, also as proxies know it. One without trust
    # may hide where the client is.
    def local?(env)
      return false if env.key?("highball.untrusted_proxy") || !local_host?(env["SERVER_NAME"].to_s)

      forwarded = FORWARDED.flat_map { |name| env[name].to_s.split(/[,;]/) }
      # Forwarded has other pairs than for=ADDRESS (RFC 7239).
      forwarded = forwarded.map(&:strip).grep_v(/\A(?:by|host|proto)=/i)
      [env["REMOTE_ADDR"].to_s, *forwarded].all? { |address| local_address?(address) }
    end

    # A public name may be that of a site whose proxy says nothing about its clients, or of an attacker who has it
    # point to this machine.
    def local_host?(name)
      LOCAL_HOST.match?(name) || local_address?(name)
    end

    def local_address?(text)
      text = text.sub(/\Afor=/i, "").delete('"')
      text = text[/\A\[(.+)\](?::\d+)?\z/, 1] || text[/\A([\d.]+):\d+\z/, 1] || text
      address = IPAddr.new(text).native
      address.loopback? || address.private? || address.link_local?
    rescue IPAddr::Error
      false
    end

    def errors_with_causes(error)
      errors = []
      while Exception === error && errors.size < CAUSES
        errors << error
        error = Description.cause(error)
      end
      errors
    end

    def section(error, index)
      frames = frames(error)
      first = frames.find { |frame| application?(frame) }
      <<~HTML
        #{cause_title(error) unless index.zero?}
        #{first ? "<h2>#{location(first)}</h2>\n#{source(first)}" : ""}
        <h2>Backtrace</h2>
        <ol>
        #{list(frames)}
        </ol>
      HTML
    end

    def cause_title(error)
      "<h2>Caused by #{escape(Description.class_name(error))}</h2>\n" \
        "<p class=\"message\">#{escape(Description.message(error))}</p>"
    end

    # The application's frames, each with its source; what lies between them is folded.
    def list(frames)
      shown = 0
      items = frames.chunk { |frame| application?(frame) }.flat_map do |own, some|
        next folded(some) unless own

        some.map { |frame| own_frame(frame, (shown += 1) <= SOURCES) }
      end
      items.join("\n")
    end

    def own_frame(frame, has_source)
      text = "<code>#{escape(frame.text.delete_prefix(@folder))}</code>"
      return "<li>#{text}</li>" unless has_source

      "<li><details><summary>#{text}</summary>#{source(frame)}</details></li>"
    end

    # Frames of gems and of Ruby: few are shown, more behind a line.
    def folded(frames)
      items = frames.map { |frame| "<li><code>#{escape(frame.text)}</code></li>" }.join("\n")
      return "<li class=\"dim\"><ol>#{items}</ol></li>" if frames.size <= SHOWN_OUTSIDE

      summary = "#{frames.size} lines of gems and Ruby"
      "<li class=\"dim\"><details><summary>#{summary}</summary><ol>#{items}</ol></details></li>"
    end

    def frames(error)
      Description.backtrace(error).map do |text|
        match = FRAME.match(text)
        match ? Frame.new(text, File.expand_path(match[:path]), match[:line].to_i, match[:name]) : Frame.new(text)
      end
    end

    def application?(frame)
      !frame.path.nil? && frame.path.start_with?(@folder) && !frame.path.include?("/vendor/bundle/")
    end

    def location(frame)
      escape("#{frame.path.delete_prefix(@folder)}:#{frame.line}")
    end

    # The lines around the one that raised; nothing where the file cannot be read.
    def source(frame)
      # A link may lead out of the folder.
      path = File.realpath(frame.path)
      return "" unless path.start_with?(@folder) && File.file?(path) && File.size(path) <= SOURCE_BYTES

      excerpt(Description.utf8(File.binread(path)).lines(chomp: true), frame.line)
    rescue SystemCallError
      ""
    end

    def excerpt(lines, here)
      first = [here - CONTEXT, 1].max
      shown = lines[(first - 1)..(here + CONTEXT - 1)] || []
      width = (first + shown.size).to_s.size
      rows = shown.each.with_index(first).map do |line, number|
        mark = " class=\"here\"" if number == here
        "<span#{mark}><code class=\"dim\">#{number.to_s.rjust(width)}</code>  #{escape(line)}</span>"
      end
      "<pre>#{rows.join}</pre>"
    end

    def escape(text)
      ::Rack::Utils.escape_html(text)
    end
  end
end
