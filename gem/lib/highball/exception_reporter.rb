# frozen_string_literal: true

require_relative "exception_report"
require_relative "exceptions"

module Highball
  # Reports the exceptions of one thread's requests to the front. Nothing that the application does there reaches the
  # request: a report that cannot be made is left out.
  class ExceptionReporter
    # The most exceptions of one request.
    MOST = 5
    # Where frameworks leave an exception that they have answered themselves.
    RENDERED = %w[action_dispatch.exception sinatra.error].freeze
    # Classes of exceptions that clients cause, which `default` in the settings stands for.
    DEFAULT = %w[
      AbstractController::ActionNotFound ActionController::BadRequest ActionController::InvalidAuthenticityToken
      ActionController::InvalidCrossOriginRequest ActionController::MethodNotAllowed ActionController::NotImplemented
      ActionController::ParameterMissing ActionController::RoutingError ActionController::UnknownAction
      ActionController::UnknownFormat ActionController::UnknownHttpMethod
      ActionDispatch::Http::MimeNegotiation::InvalidType ActionDispatch::Http::Parameters::ParseError
      ActionDispatch::ParamsParser::ParseError ActiveRecord::RecordNotFound Mongoid::Errors::DocumentNotFound
      Rack::QueryParser::InvalidParameterError Rack::QueryParser::ParameterTypeError Sinatra::BadRequest
      Sinatra::NotFound
    ].freeze
    # The file that says which release the application is.
    RELEASE_FILE = "REVISION"
    # The most bytes of it that are read.
    RELEASE_BYTES = 100

    # What all threads of a worker have in common.
    class Rules
      attr_reader :ignored, :details, :release, :code_frames

      # `ignore`, `filter` and `release` are those of the settings, `folder` is the application's.
      def initialize(folder, ignore, filter, release)
        names = ignore.flat_map { |name| name == "default" ? DEFAULT : [name] }
        @ignored = names.to_h { |name| [name, true] }
        @details = RequestDetails.new(filter)
        @release = release || release_of(folder)
        @code_frames = CodeFrames.new([folder, (::Rails.root&.to_s if defined?(::Rails) && ::Rails.respond_to?(:root))])
      end

      private

      def release_of(folder)
        text = File.open(File.join(folder, RELEASE_FILE), "rb") { |file| file.gets("\n", RELEASE_BYTES) }
        Description.utf8(text.to_s.strip)
      rescue SystemCallError
        ""
      end
    end

    # What Rails tells of exceptions that the application reports with `Rails.error`.
    module RailsSubscriber
      class << self
        def subscribe
          return unless defined?(::Rails) && ::Rails.respond_to?(:error) && ::Rails.error.respond_to?(:subscribe)
          # The worker has subscribed that this process's template was forked from.
          return if @is_subscribed

          ::Rails.error.subscribe(self)
          @is_subscribed = true
        end

        def report(error, handled:, severity: nil, context: nil, **)
          return if severity == :info || Native.child?

          reporter = Thread.current.thread_variable_get(:highball_exceptions)
          reporter&.report(error, handled:, context:)
        end
      end
    end

    def initialize(worker_thread, rules)
      @worker_thread = worker_thread
      @rules = rules
    end

    # Makes this the reporter of the current thread.
    def enter
      Thread.current.thread_variable_set(:highball_exceptions, self)
    end

    # Reports the exception that the application has answered itself, if there is one.
    def report_rendered(env)
      error = env[RENDERED[0]] || env[RENDERED[1]]
      report(error) if Exception === error
    end

    # Reports an exception of the request that this thread runs. Returns whether it did. Never raises.
    def report(error, handled: false, context: nil)
      env = @worker_thread.env
      return false if env.nil? || ignored?(error) || known?(env, error)

      report = ExceptionReport.new(error, env, code_frames: @rules.code_frames, context:, handled:)
      ExceptionHooks.call(report) { |failure| complain("on_exception", failure) }
      return false if report.dropped?

      @worker_thread.report_exception(report.generate(release: @rules.release, details: @rules.details))
    rescue StandardError, ScriptError, SystemStackError => error
      raise if Native.child?

      complain("a report of an exception", error)
      false
    end

    private

    # Whether this request has reported it, or as many as it may; remembers it.
    def known?(env, error)
      claim = @worker_thread.claim_of(env)
      @errors = [] unless claim == @claim
      @claim = claim
      return true if @errors.size >= MOST || @errors.include?(error.object_id)

      @errors << error.object_id
      false
    end

    def ignored?(error)
      return false if @rules.ignored.empty?

      ancestors = Description.ancestors(error)
      ancestors.any? { |name| @rules.ignored.key?(name) }
    end

    def complain(what, failure)
      @worker_thread.report("#{what} failed: #{Highball.describe(failure)}")
    rescue StandardError
      # Not even that can be said.
      nil
    end
  end
end
