# frozen_string_literal: true

module Highball
  # The blocks of config/highball.rb. They run in the order in which they are written:
  #
  #   before_fork         { }           in the template, before every fork
  #   after_fork          { |worker| }  in each new worker, before its first request
  #   out_of_band         { |worker| }  in a worker, between two requests (setting `out_of_band_interval`)
  #   before_worker_exit  { |worker| }  in a worker that was told to stop, after its last request
  #
  # A block that raises is reported and does not keep the others from running.
  class Hooks
    def initialize
      @blocks = Hash.new { |blocks, name| blocks[name] = [] }
    end

    # Registers a block for the template.
    def before_fork(&block)
      register(:before_fork, block)
    end

    # Registers a block for each worker; it is given the worker's number, from 0.
    def after_fork(&block)
      register(:after_fork, block)
    end

    # Registers a block for work between requests, after a collection of garbage; it is given the worker's number.
    def out_of_band(&block)
      register(:out_of_band, block)
    end

    # Registers a block for a worker's end; it is given the worker's number, from 0.
    def before_worker_exit(&block)
      register(:before_worker_exit, block)
    end

    # Runs the blocks called `name`. Yields each error to the caller, who reports it.
    def run(name, *arguments)
      @blocks[name].each do |block|
        block.call(*arguments)
      rescue StandardError, ScriptError => error
        yield error
      end
    end

    private

    def register(name, block)
      raise ArgumentError, "#{name} needs a block" unless block

      @blocks[name] << block
    end
  end
end

# Reads a file of hooks; without a path there are none. Defined outside of the module, so that the file's constants
# are the application's: its Worker is not Highball's.
#
# Raises what the file raises, so that a mistake in it ends the start.
def (Highball::Hooks).load(path)
  hooks = new
  hooks.instance_eval(File.read(path), path) if path
  hooks
end
