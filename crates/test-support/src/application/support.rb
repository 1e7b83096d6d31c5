# What test applications share: events that the test reads, gates that it opens.
module Test
  DIR = Dir.pwd

  # Tells the test something: one line.
  def self.tell(event)
    File.open(File.join(DIR, "events"), File::WRONLY | File::NONBLOCK) { |fifo| fifo.syswrite("#{event}\n") }
  rescue Errno::ENOENT
    # Where the folder is gone, the test has ended: what it printed is not to be buried.
    raise if File.directory?(DIR)
  end

  # Tells that it waits at the gate, and waits until the test admits it.
  def self.pass(gate, event = "at #{gate}")
    tell(event)
    File.open(File.join(DIR, "gate-#{gate}")) { |fifo| fifo.sysread(1) }
  end

  def self.text(body, status: 200, headers: {})
    [status, { "content-type" => "text/plain" }.merge(headers), [body]]
  end

  # The body of a request. Since Rack 3.1 one without a body may have no input.
  def self.input(env) = env["rack.input"]&.read.to_s

  # A body whose chunks and close the test can follow.
  class Body
    def initialize(name: "body", &each)
      @name = name
      @each = each
    end

    def each(&block) = @each.call(block)

    def close = Test.tell("#{@name} closed")
  end
end
