# Records each id that it sees before it does anything else. What it is worth depends on the file `version`.
require "sqlite3"

VERSION = File.read("version").strip
raise "this version does not boot" if VERSION == "raises"

# A database for each worker: one that is stopped within a write must hold up no other.
module Seen
  @lock = Mutex.new
  def self.record(method, id)
    @lock.synchronize do
      @database ||= open
      @database.execute("INSERT INTO seen VALUES (?, ?, ?)", [method, id, VERSION])
    end
  end

  # A process that is forked from this one opens its own.
  def self.close
    @lock.synchronize do
      @database&.close
      @database = nil
    end
  end

  def self.open
    started = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
    database = SQLite3::Database.new("seen/#{Process.pid}-#{started}.db")
    database.execute("PRAGMA journal_mode = WAL")
    # What is committed outlives the process, which is all that is asked.
    database.execute("PRAGMA synchronous = OFF")
    # No id is unique: one that came twice must show.
    database.execute("CREATE TABLE seen (method TEXT, id TEXT, version TEXT)")
    database
  end
end

run lambda { |env|
  _, kind, id = env["PATH_INFO"].split("/")
  next [VERSION == "sick" ? 503 : 200, {}, ["up"]] if kind == "up"

  Seen.record(env["REQUEST_METHOD"], id)
  length = Test.input(env).bytesize
  case kind
  when "slow" then sleep 0.05
  when "stream" then next [200, {}, Enumerator.new { |to| [id, " ", length.to_s].each { |part| sleep 0.005; to << part } }]
  end
  [200, { "content-type" => "text/plain" }, ["#{id} #{length}"]]
}
