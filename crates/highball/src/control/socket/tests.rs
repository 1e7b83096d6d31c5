//! The control socket over real sockets, each test under names of its own.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;

use super::*;
use crate::startup::own_pid;

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(test);
}

async fn report() -> Report {
    Report {
        pid: 7,
        ..Report::default()
    }
}

fn asked() -> (Asked, mpsc::Receiver<Stop>, Rc<Asks>) {
    let (stops, stop) = mpsc::channel(1);
    let changes = Rc::new(Asks::new(|_| {}));
    let asks = Rc::clone(&changes);
    (Asked { stops, changes }, stop, asks)
}

/// The next one who asks for something.
async fn next(asks: &Asks) -> Ask {
    let change = asks.first().await;
    asks.take(&change).remove(0)
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
        Some(ControlDirectory::look(self.path(), Some(own_uid())).unwrap())
    }

    fn sockets(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

async fn connect(dir: &Folder, name: Name<'_>) -> io::Result<UnixStream> {
    let stream = StdStream::connect(dir.join(&name.file_name()))?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

async fn ask(dir: &Folder, name: Name<'_>, question: &str) -> String {
    let mut stream = connect(dir, name).await.expect("a server");
    let _ = stream.write_all(question.as_bytes()).await;
    // A server that has not read all resets the connection after its answer.
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply).await;
    String::from_utf8(reply).expect("JSON is UTF-8")
}

#[test]
fn status_and_stop_are_answered_under_every_name() {
    run(async {
        let dir = Folder::new();
        let file = dir.path().join("highball.toml");
        let names = [Name::Dir(dir.path()), Name::Config(&file)];
        let (asked, mut stops, _) = asked();
        let _socket = ControlSocket::open(dir.control(), &names, report, asked)
            .await
            .unwrap();
        for name in names {
            let reply = ask(&dir, name, "{\"command\":\"status\"}\n").await;
            let Answer::Status(report) = serde_json::from_str(&reply).unwrap() else {
                panic!("{reply}");
            };
            assert_eq!(report.pid, 7);
            for (question, stop) in [
                ("{\"command\":\"stop\"}\n", Stop::Drain),
                ("{\"command\":\"stop\",\"now\":true}\n", Stop::Now),
            ] {
                let mut client = connect(&dir, name).await.unwrap();
                client.write_all(question.as_bytes()).await.unwrap();
                let mut reply = String::new();
                BufReader::new(client).read_line(&mut reply).await.unwrap();
                assert!(reply.starts_with("{\"stopping\":{\"pid\":"), "{reply}");
                assert_eq!(stops.recv().await, Some(stop));
            }
        }
    });
}

#[test]
fn a_restart_is_answered_when_it_is_done_and_when_the_server_stops_instead() {
    run(async {
        let dir = Folder::new();
        let name = Name::Dir(dir.path());
        let (asked, _stops, restarts) = asked();
        let _socket = ControlSocket::open(dir.control(), &[name], report, asked)
            .await
            .unwrap();
        let restart = async || ask(&dir, name, "{\"command\":\"restart\"}\n").await;
        let done = async {
            let ask = next(&restarts).await;
            assert_eq!(ask.change, Change::Restart);
            ask.reply(&Answer::Restarted {
                generation: 2,
                before: 1,
                load_seconds: 0.5,
                seconds: 1.0,
            });
        };
        let (reply, ()) = tokio::join!(restart(), done);
        assert!(
            reply.starts_with("{\"restarted\":{\"generation\":2,"),
            "{reply}"
        );
        let stops = async { drop(next(&restarts).await) };
        let (reply, ()) = tokio::join!(restart(), stops);
        assert_eq!(reply, "{\"error\":\"the server stops\"}\n");
    });
}

#[test]
fn a_client_hears_that_its_change_is_under_way_and_whoever_leaves_makes_room() {
    run(async {
        let dir = Folder::new();
        let name = Name::Dir(dir.path());
        let (asked, _stops, restarts) = asked();
        let socket = ControlSocket::open(dir.control(), &[name], report, asked)
            .await
            .unwrap();
        let question = b"{\"command\":\"restart\"}\n";
        let mut leaves = connect(&dir, name).await.unwrap();
        leaves.write_all(question).await.unwrap();
        let mut stays = connect(&dir, name).await.unwrap();
        stays.write_all(question).await.unwrap();
        restarts.first().await;
        drop(leaves);
        let mut replies = BufReader::new(stays).lines();
        for _ in 0..2 {
            let reply = replies.next_line().await.unwrap();
            assert_eq!(reply.as_deref(), Some("\"working\""));
        }
        assert_eq!(socket.places.available_permits(), MAX_CLIENTS - 1);
        let error = Answer::Error("told".to_owned());
        for ask in restarts.take(&Change::Restart) {
            ask.reply(&error);
        }
        let reply = replies.next_line().await.unwrap();
        assert_eq!(reply.as_deref(), Some("{\"error\":\"told\"}"));
    });
}

#[test]
fn nonsense_is_answered_with_an_error_and_stops_nothing() {
    run(async {
        let dir = Folder::new();
        let name = Name::Dir(dir.path());
        let (asked, mut stops, _) = asked();
        let _socket = ControlSocket::open(dir.control(), &[name], report, asked)
            .await
            .unwrap();
        for question in ["\n", "{\"command\":\"burn\"}\n", "GET / HTTP/1.1\r\n"] {
            let reply = ask(&dir, name, question).await;
            assert!(reply.starts_with("{\"error\":"), "{question:?}: {reply}");
        }
        // Longer than any question: not read to its end, so the answer may be lost with the rest.
        ask(&dir, name, &"x".repeat(10_000)).await;
        assert!(stops.try_recv().is_err());
    });
}

#[test]
fn a_name_that_is_taken_stays_with_its_owner_and_is_free_after_it() {
    run(async {
        let dir = Folder::new();
        let (name, own) = (Name::Dir(dir.path()), dir.path().join("second"));
        let (asked, _stops, _) = asked();
        let first = ControlSocket::open(dir.control(), &[name], report, asked.clone())
            .await
            .unwrap();
        assert_eq!(first.taken(), 0);
        let other = || async {
            Report {
                pid: 8,
                ..Report::default()
            }
        };
        let second = ControlSocket::open(dir.control(), &[name, Name::Config(&own)], other, asked)
            .await
            .unwrap();
        assert_eq!(second.taken(), 1);
        let status = "{\"command\":\"status\"}\n";
        assert!(ask(&dir, name, status).await.contains("\"pid\":7"));
        assert!(
            ask(&dir, Name::Config(&own), status)
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
fn a_name_goes_over_to_another_server_without_a_moment_in_which_nobody_has_it() {
    run(async {
        let dir = Folder::new();
        let name = Name::Dir(dir.path());
        let names = [Name::Pid(own_pid()), name];
        let (asked, _stops, _) = asked();
        let first = ControlSocket::open(dir.control(), &names, report, asked.clone())
            .await
            .unwrap();
        let other = || async {
            Report {
                pid: 8,
                ..Report::default()
            }
        };
        let second = ControlSocket::open(dir.control(), &[], other, asked)
            .await
            .unwrap();
        let handed: BTreeMap<_, _> = first.shared().unwrap().into_iter().collect();
        assert_eq!(handed.len(), 1, "the process's name is nobody else's");
        second.join(&[name], handed).await.unwrap();
        first.leave_shared();
        let status = "{\"command\":\"status\"}\n";
        tokio::task::yield_now().await;
        assert!(ask(&dir, name, status).await.contains("\"pid\":8"));
        assert!(ask(&dir, names[0], status).await.contains("\"pid\":7"));
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
        let names = [Name::Dir(dir.path()), Name::Pid(1)];
        for name in names {
            drop(StdListener::bind(dir.join(&name.file_name())).unwrap());
        }
        // No socket of ours: it stays.
        std::fs::write(dir.join("notes"), "").unwrap();
        let (asked, _stops, _) = asked();
        let socket = ControlSocket::open(dir.control(), &names[..1], report, asked).await;
        let socket = socket.unwrap();
        assert_eq!(socket.taken(), 0);
        let status = "{\"command\":\"status\"}\n";
        assert!(ask(&dir, names[0], status).await.contains("\"pid\":7"));
        let mut left = dir.sockets();
        left.sort();
        assert_eq!(left, [names[0].file_name(), "notes".to_owned()]);
    });
}

#[test]
fn of_two_servers_that_start_at_once_one_has_the_name() {
    run(async {
        let dir = Folder::new();
        let name = Name::Dir(dir.path());
        drop(StdListener::bind(dir.join(&name.file_name())).unwrap());
        let (asked, _stops, _) = asked();
        let names = [name];
        let open = || ControlSocket::open(dir.control(), &names, report, asked.clone());
        let sockets = tokio::join!(open(), open(), open());
        let sockets = [sockets.0, sockets.1, sockets.2].map(Result::unwrap);
        let taken: usize = sockets.iter().map(ControlSocket::taken).sum();
        assert_eq!(taken, 2);
    });
}

#[test]
fn hashes_of_folders_never_change() {
    assert_eq!(hash(Path::new("")), 0xcbf2_9ce4_8422_2325);
    assert_eq!(hash(Path::new("a")), 0xaf63_dc4c_8601_ec8c);
    assert_ne!(hash(Path::new("/srv/a")), hash(Path::new("/srv/b")));
}

#[test]
fn a_client_that_asks_nothing_is_let_go_of() {
    run(async {
        let dir = Folder::new();
        let (asked, ..) = asked();
        let _socket = ControlSocket::open(dir.control(), &[Name::Dir(dir.path())], report, asked)
            .await
            .unwrap();
        let mut silent = connect(&dir, Name::Dir(dir.path())).await.unwrap();
        // Half a question is none.
        silent.write_all(b"{").await.unwrap();
        let mut reply = Vec::new();
        silent.read_to_end(&mut reply).await.unwrap();
        assert!(reply.is_empty());
    });
}

#[test]
fn a_question_that_is_too_long_is_an_error() {
    run(async {
        let dir = Folder::new();
        let name = Name::Dir(dir.path());
        let (asked, ..) = asked();
        let _socket = ControlSocket::open(dir.control(), &[name], report, asked)
            .await
            .unwrap();
        // It would be one if all of it were read.
        let spaces = " ".repeat(MAX_QUESTION_BYTES as usize);
        let reply = ask(&dir, name, &format!("{spaces}{{\"command\":\"status\"}}\n")).await;
        assert!(reply.contains("error"), "{reply}");
    });
}

#[test]
fn commands_beyond_the_most_at_once_are_told() {
    run(async {
        let dir = Folder::new();
        let name = Name::Dir(dir.path());
        let (asked, ..) = asked();
        let _socket = ControlSocket::open(dir.control(), &[name], report, asked)
            .await
            .unwrap();
        let mut silent = Vec::new();
        for _ in 0..MAX_CLIENTS {
            silent.push(connect(&dir, name).await.unwrap());
        }
        let status = "{\"command\":\"status\"}\n";
        let reply = ask(&dir, name, status).await;
        assert!(reply.contains("64 other commands wait"), "{reply}");
        // One that leaves makes room.
        drop(silent.pop());
        while !ask(&dir, name, status).await.contains("\"pid\":7") {}
    });
}
