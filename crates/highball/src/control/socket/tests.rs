//! The control socket over real sockets, each test under names of its own.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::*;
use crate::control::api::{self, CommandSinks};
use crate::control::health::Health;
use crate::control::messages::Progress;
use crate::control::queue::{Change, ChangeQueue, ChangeRequest};
use crate::control::report::Report;
use crate::system::program::own_pid;
use crate::system::signals::Stop;

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(test);
}

/// The routes of a server whose status names this process.
fn routes_of(pid: i32, sinks: CommandSinks) -> Rc<Routes> {
    let report = Report {
        pid,
        ..Report::default()
    };
    let report = Rc::new(move || Box::pin(std::future::ready(report.clone())) as _);
    let health = Health {
        state: Rc::new(Cell::new("serving")),
        hosted: Vec::new(),
    };
    Rc::new(api::routes(report, Rc::new(health), sinks))
}

fn sinks() -> (CommandSinks, mpsc::Receiver<Stop>, Rc<ChangeQueue>) {
    let (stops, stop) = mpsc::channel(1);
    let changes = Rc::new(ChangeQueue::new(|_| {}, || {}));
    let queue = Rc::clone(&changes);
    let (purges, _) = mpsc::channel(1);
    let sinks = CommandSinks {
        stops,
        changes,
        purges,
        inspections: mpsc::channel(1).0,
    };
    (sinks, stop, queue)
}

/// The next request for a change.
async fn next(queue: &ChangeQueue) -> ChangeRequest {
    let change = queue.first().await;
    queue.take(&change).remove(0)
}

/// A directory for control sockets, and files whose names are asked for.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn control(&self) -> Option<ControlDirectory> {
        Some(ControlDirectory::look(self.path(), Some(User::of_this_process().uid)).unwrap())
    }

    fn sockets(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

async fn connect(dir: &Folder, name: ServerName<'_>) -> io::Result<UnixStream> {
    let stream = StdStream::connect(dir.join(&name.file_name()))?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

const STATUS: &str = "GET /v1/status HTTP/1.0\r\n\r\n";

/// A request with this body.
fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Returns the body of the answer to a request.
async fn send(dir: &Folder, name: ServerName<'_>, request: &str) -> String {
    let mut stream = connect(dir, name).await.expect("a server");
    let _ = stream.write_all(request.as_bytes()).await;
    // A server that has not read all resets the connection after its answer.
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply).await;
    let reply = String::from_utf8(reply).expect("JSON is UTF-8");
    let body = reply.split_once("\r\n\r\n");
    body.map_or_else(String::new, |(_, body)| body.to_owned())
}

#[test]
fn status_and_stop_are_answered_under_every_name() {
    run(async {
        let dir = Folder::new();
        let file = dir.path().join("highball.toml");
        let names = [ServerName::Dir(dir.path()), ServerName::Config(&file)];
        let (sinks, mut stops, _) = sinks();
        let _socket = ControlSocket::open(dir.control(), &names, routes_of(7, sinks))
            .await
            .unwrap();
        for name in names {
            let reply = send(&dir, name, STATUS).await;
            let report: Report = serde_json::from_str(&reply).unwrap();
            assert_eq!(report.pid, 7);
            for (command, stop) in [
                (post("/v1/stop", ""), Stop::Drain),
                (post("/v1/stop", "{\"now\":true}"), Stop::Now),
            ] {
                let mut client = connect(&dir, name).await.unwrap();
                client.write_all(command.as_bytes()).await.unwrap();
                let mut lines = BufReader::new(client).lines();
                while !lines.next_line().await.unwrap().unwrap().is_empty() {}
                let first = lines.next_line().await.unwrap().unwrap();
                assert!(
                    first.starts_with("{\"state\":\"stopping\",\"pid\":"),
                    "{first}"
                );
                assert_eq!(stops.recv().await, Some(stop));
            }
        }
    });
}

#[test]
fn a_restart_is_answered_when_it_is_done_and_when_the_server_stops_instead() {
    run(async {
        let dir = Folder::new();
        let name = ServerName::Dir(dir.path());
        let (sinks, _stops, restarts) = sinks();
        let _socket = ControlSocket::open(dir.control(), &[name], routes_of(7, sinks))
            .await
            .unwrap();
        let restart = async || send(&dir, name, &post("/v1/restart", "")).await;
        let done = async {
            let request = next(&restarts).await;
            assert_eq!(request.change, Change::Restart(None));
            request.reply(&Progress::done("generation 2 serves"));
        };
        let (reply, ()) = tokio::join!(restart(), done);
        assert_eq!(
            reply,
            "{\"state\":\"done\",\"message\":\"generation 2 serves\"}\n"
        );
        let stops = async { drop(next(&restarts).await) };
        let (reply, ()) = tokio::join!(restart(), stops);
        assert_eq!(
            reply,
            "{\"state\":\"refused\",\"message\":\"the server is stopping\"}\n"
        );
    });
}

#[test]
fn a_waiting_client_gets_signs_of_life_and_one_that_leaves_makes_room() {
    run(async {
        let dir = Folder::new();
        let name = ServerName::Dir(dir.path());
        let (sinks, _stops, restarts) = sinks();
        let socket = ControlSocket::open(dir.control(), &[name], routes_of(7, sinks))
            .await
            .unwrap();
        let command = post("/v1/restart", "");
        let mut leaves = connect(&dir, name).await.unwrap();
        leaves.write_all(command.as_bytes()).await.unwrap();
        let mut stays = connect(&dir, name).await.unwrap();
        stays.write_all(command.as_bytes()).await.unwrap();
        restarts.first().await;
        drop(leaves);
        let mut replies = BufReader::new(stays).lines();
        while !replies.next_line().await.unwrap().unwrap().is_empty() {}
        for _ in 0..2 {
            let reply = replies.next_line().await.unwrap();
            assert_eq!(reply.as_deref(), Some("{\"state\":\"working\"}"));
        }
        assert_eq!(socket.clients.available_permits(), MAX_CLIENTS - 1);
        let error = Progress::refused("full");
        for request in restarts.take(&Change::Restart(None)) {
            request.reply(&error);
        }
        let reply = replies.next_line().await.unwrap();
        assert_eq!(
            reply.as_deref(),
            Some("{\"state\":\"refused\",\"message\":\"full\"}")
        );
    });
}

#[test]
fn nonsense_is_answered_with_an_error_and_stops_nothing() {
    run(async {
        let dir = Folder::new();
        let name = ServerName::Dir(dir.path());
        let (sinks, mut stops, _) = sinks();
        let _socket = ControlSocket::open(dir.control(), &[name], routes_of(7, sinks))
            .await
            .unwrap();
        for request in [
            "GET / HTTP/1.0\r\n\r\n".to_owned(),
            "GET /v1/stop HTTP/1.0\r\n\r\n".to_owned(),
            post("/v1/burn", ""),
            post("/v1/stop", "[]"),
            post("/v1/stop", "{\"later\":true}"),
            post("/v1/reload", "{\"later\":true}"),
            post("/v1/purge", ""),
            post("/v1/purge", "{\"all\":false}"),
            post("/v1/upgrade", "{\"binary\":\"highball\"}"),
        ] {
            let reply = send(&dir, name, &request).await;
            assert!(reply.starts_with("{\"error\":"), "{request:?}: {reply}");
        }
        // No HTTP at all: hyper answers without a body, or not at all.
        for request in ["\n", "{\"command\":\"stop\"}\n"] {
            assert_eq!(send(&dir, name, request).await, "");
        }
        assert!(stops.try_recv().is_err());
    });
}

#[test]
fn a_name_that_is_taken_stays_with_its_owner_and_is_free_after_it() {
    run(async {
        let dir = Folder::new();
        let (name, own) = (ServerName::Dir(dir.path()), dir.path().join("second"));
        let (sinks, _stops, _) = sinks();
        let first = ControlSocket::open(dir.control(), &[name], routes_of(7, sinks.clone()))
            .await
            .unwrap();
        assert_eq!(first.names_taken(), 0);
        let second = ControlSocket::open(
            dir.control(),
            &[name, ServerName::Config(&own)],
            routes_of(8, sinks),
        )
        .await
        .unwrap();
        assert_eq!(second.names_taken(), 1);
        assert!(send(&dir, name, STATUS).await.contains("\"pid\":7"));
        assert!(
            send(&dir, ServerName::Config(&own), STATUS)
                .await
                .contains("\"pid\":8")
        );
        drop(first);
        tokio::task::yield_now().await;
        let refused = connect(&dir, name).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_name_passes_to_another_server_without_a_gap() {
    run(async {
        let dir = Folder::new();
        let name = ServerName::Dir(dir.path());
        let names = [ServerName::Pid(own_pid()), name];
        let (sinks, _stops, _) = sinks();
        let first = ControlSocket::open(dir.control(), &names, routes_of(7, sinks.clone()))
            .await
            .unwrap();
        let second = ControlSocket::open(dir.control(), &[], routes_of(8, sinks))
            .await
            .unwrap();
        let handed: BTreeMap<_, _> = first.duplicate_shared().unwrap().into_iter().collect();
        assert_eq!(handed.len(), 1, "only this process has its name");
        second.add_names(&[name], handed).await.unwrap();
        first.release_shared();
        tokio::task::yield_now().await;
        assert!(send(&dir, name, STATUS).await.contains("\"pid\":8"));
        assert!(send(&dir, names[0], STATUS).await.contains("\"pid\":7"));
        // Each leaves what is the other's.
        drop(first);
        assert_eq!(dir.sockets(), [name.file_name()]);
        drop(second);
        assert_eq!(dir.sockets(), [""; 0]);
    });
}

#[test]
fn sockets_of_a_server_that_was_killed_are_replaced_or_removed() {
    run(async {
        let dir = Folder::new();
        let names = [ServerName::Dir(dir.path()), ServerName::Pid(1)];
        for name in names {
            drop(StdListener::bind(dir.join(&name.file_name())).unwrap());
        }
        // No socket of ours: it stays.
        std::fs::write(dir.join("notes"), "").unwrap();
        let (sinks, _stops, _) = sinks();
        let socket = ControlSocket::open(dir.control(), &names[..1], routes_of(7, sinks)).await;
        let socket = socket.unwrap();
        assert_eq!(socket.names_taken(), 0);
        assert!(send(&dir, names[0], STATUS).await.contains("\"pid\":7"));
        let mut left = dir.sockets();
        left.sort();
        assert_eq!(left, [names[0].file_name(), "notes".to_owned()]);
    });
}

#[test]
fn of_two_servers_that_start_at_once_one_has_the_name() {
    run(async {
        let dir = Folder::new();
        let name = ServerName::Dir(dir.path());
        drop(StdListener::bind(dir.join(&name.file_name())).unwrap());
        let (sinks, _stops, _) = sinks();
        let names = [name];
        let open = || ControlSocket::open(dir.control(), &names, routes_of(7, sinks.clone()));
        let sockets = tokio::join!(open(), open(), open());
        let sockets = [sockets.0, sockets.1, sockets.2].map(Result::unwrap);
        let taken: usize = sockets.iter().map(ControlSocket::names_taken).sum();
        assert_eq!(taken, 2);
    });
}

#[test]
fn a_client_that_sends_no_command_is_disconnected() {
    run(async {
        let dir = Folder::new();
        let (sinks, ..) = sinks();
        let _socket = ControlSocket::open(
            dir.control(),
            &[ServerName::Dir(dir.path())],
            routes_of(7, sinks),
        )
        .await
        .unwrap();
        let mut silent = connect(&dir, ServerName::Dir(dir.path())).await.unwrap();
        // Half a request is none.
        silent.write_all(b"GET /v1/sta").await.unwrap();
        let mut reply = Vec::new();
        silent.read_to_end(&mut reply).await.unwrap();
        assert!(reply.is_empty());
    });
}

#[test]
fn requests_that_are_too_long_are_refused() {
    run(async {
        let dir = Folder::new();
        let name = ServerName::Dir(dir.path());
        let (sinks, mut stops, _) = sinks();
        let _socket = ControlSocket::open(dir.control(), &[name], routes_of(7, sinks))
            .await
            .unwrap();
        // Each would be answered if all of it were read.
        let spaces = " ".repeat(64 * 1024);
        let reply = send(&dir, name, &post("/v1/stop", &format!("{spaces}{{}}"))).await;
        assert!(reply.contains("at most 65536 bytes"), "{reply}");
        let field = "x".repeat(16 * 1024);
        let long = format!("GET /v1/status HTTP/1.0\r\nX: {field}\r\n\r\n");
        assert_eq!(send(&dir, name, &long).await, "");
        assert!(stops.try_recv().is_err());
    });
}

#[test]
fn commands_beyond_the_limit_are_refused_at_once() {
    run(async {
        let dir = Folder::new();
        let name = ServerName::Dir(dir.path());
        let (sinks, ..) = sinks();
        let _socket = ControlSocket::open(dir.control(), &[name], routes_of(7, sinks))
            .await
            .unwrap();
        let mut silent = Vec::new();
        for _ in 0..MAX_CLIENTS {
            silent.push(connect(&dir, name).await.unwrap());
        }
        let reply = send(&dir, name, STATUS).await;
        assert!(reply.contains("64 other commands are waiting"), "{reply}");
        // One that leaves makes room.
        drop(silent.pop());
        while !send(&dir, name, STATUS).await.contains("\"pid\":7") {}
    });
}
