//! The front's memory under clients that hold much of it: it has a bound while they are there, and goes back to the
//! system when they have left. What is waited for is what `/proc` says of the front.

use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use test_support::{Application, Client, Process, Server, until};

const MIB: u64 = 1 << 20;

/// A large response in pieces, and a small one.
const APPLICATION: &str = r##"
    PIECE = ("x" * 65_536).freeze
    run lambda { |env|
      next Test.text("hello") unless env["PATH_INFO"] == "/large"
      [200, {}, Test::Body.new { |to| 107.times { to.call(PIECE) } }]
    }"##;

fn memory(front: Process) -> u64 {
    front.written_memory().expect("it runs")
}

/// Lets this process have as many descriptors as the system lets it.
fn raise_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("up to the maximum");
}

/// A client whose kernel takes little for it.
fn slow_reader(server: &Server) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let address = server.address().into();
    socket.connect(&address).expect("it listens");
    TcpStream::from(socket).into()
}

/// Slow readers of a scene: 7 MB each, for most of which the server needs the disk.
const READERS: usize = 80;

/// Clients that have asked for the large response and have taken no more than its head.
fn slow_readers(server: &Server) -> Vec<Client> {
    let mut readers: Vec<Client> = (0..READERS).map(|_| slow_reader(server)).collect();
    for reader in &mut readers {
        reader.ask("GET", "/large");
    }
    for reader in &mut readers {
        reader.head();
    }
    readers
}

#[test]
fn memory_of_slow_readers_goes_back_when_they_leave() {
    let server = Server::app(APPLICATION)
        .setting("send_timeout", "1h")
        .start();
    let before = memory(server.process());
    let mut readers = slow_readers(&server);
    let held = memory(server.process());
    assert!(held > before + 20 * MIB, "the scene holds nothing: {held}");
    // The last one stays, and with it the end of whatever was allocated one after the other.
    readers.drain(..READERS - 1);
    until("the memory has gone back", || {
        memory(server.process()) < before + 10 * MIB
    });
}

#[test]
fn all_slow_readers_together_keep_to_one_bound() {
    let server = Server::app(APPLICATION)
        .setting("send_timeout", "1h")
        .setting("response_buffer_total_bytes", "8MiB")
        .start();
    let before = memory(server.process());
    let mut readers = slow_readers(&server);
    // They are sent 7 MB each, of which the kernel takes some; each may have a piece on its way.
    until("what is beyond it is on the disk", || {
        memory(server.process()) < before + 30 * MIB
    });
    // Nothing is lost for that, and others are answered from memory.
    assert_eq!(server.get("/").text(), "hello");
    for reader in readers.iter_mut().take(10) {
        let mut length = 0;
        while let Some(chunk) = reader.chunk() {
            length += chunk.len();
        }
        assert_eq!(length, 107 * 65_536);
    }
}

#[test]
fn single_bytes_for_a_slow_reader_stay_within_response_memory() {
    let application = Application::without_lint(
        r##"run lambda { |env| [200, {}, Test::Body.new { |to| 1_200_000.times { to.call("x") } }] }"##,
    );
    let mut events = application.events();
    let server = Server::application_of(application).start();
    let before = memory(server.process());
    let mut reader = slow_reader(&server);
    reader.ask("GET", "/");
    assert_eq!(events.wait(), "body closed");
    let held = memory(server.process());
    assert!(held < before + 8 * MIB, "{} KiB", (held - before) / 1024);
    reader.head();
    let mut length = 0;
    while let Some(chunk) = reader.chunk() {
        length += chunk.len();
    }
    assert_eq!(length, 1_200_000);
}

#[test]
fn idle_connections_keep_nothing_of_their_large_headers() {
    const IDLE: u64 = 2000;
    raise_descriptors();
    let server = Server::app(APPLICATION)
        .setting("keep_alive_timeout", "1h")
        .start();
    let before = memory(server.process());
    let large = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Large: {}\r\n\r\n",
        "y".repeat(15_000)
    );
    let mut idle: Vec<Client> = (0..IDLE).map(|_| server.connect()).collect();
    for some in idle.chunks_mut(100) {
        for client in some.iter_mut() {
            client.send(&large);
        }
        for client in some {
            client.response().expect(200);
        }
    }
    // Half of what each sent would be 15 MB.
    until("the memory has gone back", || {
        memory(server.process()) < before + IDLE * 4096
    });
}
