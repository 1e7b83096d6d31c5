# frozen_string_literal: true

require_relative "errors"
require_relative "io_bound"
require_relative "metrics"
require_relative "response"

module Highball
  # Runs requests in one thread: takes them from the exchange, calls the application, delivers the response.
  # No error of the application ends it.
  #
  # A process that the application forks meanwhile and that comes back here, by an exception, exit or a return, is no
  # worker: its exception goes on to its end, and the request stays its parent's.
  class Runner
    # `bodies` opens bodies in files where this process has another user than the front; then it also reads files of
    # responses itself.
    def initialize(app, worker_thread, out_of_band = nil, error_page = nil, exceptions = nil, bodies: nil)
      @app = app
      @worker_thread = worker_thread
      @out_of_band = out_of_band
      @error_page = error_page
      @exceptions = exceptions
      @metrics = Highball.metrics
      @bodies = bodies
    end

    # Runs requests until the worker is told to stop.
    def run
      @exceptions&.enter
      IoBound.enter(@worker_thread)
      return run_with_out_of_band if @out_of_band

      while (env = @worker_thread.take)
        serve(env)
      end
    end

    private

    def run_with_out_of_band
      @out_of_band.after_request(@worker_thread) while serve_next
    end

    # A method of its own, so that what belonged to the request is garbage when this returns.
    def serve_next
      env = @worker_thread.take
      return false unless env

      serve(env)
      true
    end

    def serve(env)
      status = headers = error = input = nil
      begin
        # The extension leaves a body that lies in a file to Ruby. Since Rack 3.1 there may be none.
        input = env["rack.input"] = open_body unless env.fetch("rack.input", true)
        status, headers, body = @app.call(env)
        @exceptions.report_rendered(env) if @exceptions && status != 200
        tell_counts
        # The common response in one call; false says that it is another one.
        unless body.instance_of?(Array) && @worker_thread.respond(env, status, headers, body)
          Response.new(@worker_thread, env, status, headers, body, names_files: !@bodies).deliver
        end
      rescue Exception => error # rubocop:disable Lint/RescueException -- each must be answered
        answer_error(env, error)
      ensure
        end_request(input)
        # Here, so that what was held for the request is released also where the thread is killed.
        after(env, status, headers, error) unless Native.child?
      end
      raise error if SignalException === error
    end

    # Still unanswered: the thread is being killed, or the error could not be sent.
    def end_request(input)
      @worker_thread.fail("the thread was ended while it ran the request") unless @worker_thread.answered?
      input&.close
    end

    def open_body
      @bodies ? @bodies.open(@worker_thread) : File.open(@worker_thread.input_path, "rb")
    end

    def answer_error(env, error)
      raise error if Native.child?
      # By the class: what the exception says of itself may raise as well.
      return if ClientGone === error

      @exceptions&.report(error)
      tell_counts
      text = Highball.describe(error)
      return if @error_page&.deliver(@worker_thread, env, error, text)

      @worker_thread.fail(text)
    end

    # With this request's response: who has that finds its counts on the server.
    def tell_counts
      guard { @metrics.tell_with(@worker_thread) } if @metrics.changed?
    end

    # Runs what the application wants done once the response is out, before the next request: Rails 8.1 gives back its
    # database connections there. Rack 3 has its callables run in reverse.
    def after(env, status, headers, error)
      finished = env["rack.response_finished"]
      replied = env["rack.after_reply"]
      return if (finished.nil? || finished.empty?) && (replied.nil? || replied.empty?)

      @worker_thread.leave_request
      finished&.reverse_each { |callable| guard { callable.call(env, status, headers, error) } }
      replied&.each { |callable| guard { callable.call } }
    end

    def guard
      yield
    rescue Exception => error # rubocop:disable Lint/RescueException -- the others must run, and the thread go on
      raise if Native.child? || SignalException === error

      @worker_thread.report(Highball.describe(error))
    end
  end
end
