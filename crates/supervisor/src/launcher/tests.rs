//! A launcher of the test's own user, in a thread, and processes that only claim to be one.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

use exchange::control;
use rustix::process::{getgid, getuid};
use tokio::runtime::{Builder, LocalOptions};

use super::handle::{Introduced, Launcher};
use super::messages::{FromLauncher, GroupSignal, ToLauncher, VERSION};
use super::program::Program;
use super::service::serve;
use crate::runtime::exit_status::ExitStatus;

fn run<T>(test: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(LocalOptions::default());
    runtime.unwrap().block_on(test)
}

fn launcher() -> (Introduced, JoinHandle<std::io::Result<()>>) {
    let (near, far) = control::pair().unwrap();
    let thread = std::thread::spawn(move || serve(far));
    (Introduced::await_first(near, None).unwrap(), thread)
}

fn shell(script: &str) -> Program {
    Program {
        path: "sh".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        folder: "/".to_owned(),
        variables: vec![("OWN".to_owned(), "mine".to_owned())],
        own_group: true,
        ..Program::default()
    }
}

fn stdin() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

#[test]
fn a_program_is_started_signalled_measured_and_reaped() {
    let (introduced, thread) = launcher();
    let own = (getuid().as_raw(), getgid().as_raw());
    assert_eq!((introduced.uid, introduced.gid), own);
    run(async {
        let launcher = introduced.begin("own".to_owned()).unwrap();
        let ends = shell("test \"$OWN\" = mine && exit 7");
        let ends = launcher.start(ends, stdin()).await.unwrap();
        assert_eq!(launcher.reap(ends.id).await, Ok(ExitStatus::Exit(7)));
        let waits = launcher.start(shell("sleep 1000"), stdin()).await.unwrap();
        let figures = launcher.measure(&[waits.pid]).await;
        assert!(figures[&waits.pid].pss > 0, "{figures:?}");
        launcher.signal(waits.id, GroupSignal::KillGroup);
        assert_eq!(launcher.reap(waits.id).await, Ok(ExitStatus::Signal(9)));
        let nothing = Program {
            path: "/nowhere/ruby".to_owned(),
            ..shell("")
        };
        let error = launcher.start(nothing, stdin()).await.err().unwrap();
        assert!(error.to_string().contains("No such file"), "{error}");
    });
    // Its only server is gone.
    thread.join().unwrap().unwrap();
}

#[test]
fn what_a_server_has_started_ends_with_that_server_alone() {
    let (introduced, thread) = launcher();
    let (kept, mut end_of_kept) = std::io::pipe().map(|(read, write)| (write, read)).unwrap();
    let second = run(async {
        let first = introduced.begin("own".to_owned()).unwrap();
        let socket = first.connect().unwrap();
        let own = first.start(shell("sleep 1000"), kept.into()).await.unwrap();
        assert!(own.pid > 0);
        Introduced::await_first(socket, None).unwrap()
    });
    // The first server is gone: `sleep` has had the only other end of the pipe as its stdin.
    assert_eq!(end_of_kept.read(&mut [0]).unwrap(), 0);
    run(async {
        let second = second.begin("own".to_owned()).unwrap();
        let ends = second.start(shell("exit 0"), stdin()).await.unwrap();
        assert_eq!(second.reap(ends.id).await, Ok(ExitStatus::Exit(0)));
    });
    thread.join().unwrap().unwrap();
}

/// A handle of a launcher that this test plays, and its socket.
fn played() -> (std::rc::Rc<Launcher>, OwnedFd) {
    let (near, far) = control::pair().unwrap();
    let hello = FromLauncher::Hello {
        version: VERSION,
        pid: 1,
        uid: 2,
        gid: 3,
    };
    control::send(&far, &hello, &[]).unwrap();
    let introduced = Introduced::await_first(near, None).unwrap();
    (introduced.begin("own".to_owned()).unwrap(), far)
}

#[test]
fn a_launcher_that_takes_no_messages_is_given_up() {
    run(async {
        let (launcher, _far) = played();
        for _ in 0..2000 {
            launcher.kill(1, None);
        }
        assert_eq!(launcher.ended().await, "it takes no messages");
        let error = launcher.start(shell(""), stdin()).await.err().unwrap();
        assert!(error.to_string().contains("there no more"), "{error}");
    });
}

#[test]
fn false_answers_of_a_launcher_do_no_harm() {
    run(async {
        let (launcher, far) = played();
        let ask = async {
            let asked = launcher.measure(&[1, 2]).await;
            let memory = asked[&1];
            (memory.private(), memory.share(), asked.len())
        };
        let answer = async {
            let asked = loop {
                match control::try_receive::<ToLauncher>(&far) {
                    Ok(Some(asked)) => break asked.message,
                    _ => tokio::task::yield_now().await,
                }
            };
            let ToLauncher::Measure { id, .. } = asked else {
                panic!("{asked:?}")
            };
            for id in [id + 1, id] {
                let figures = vec![(1, [u64::MAX; 6])];
                control::send(&far, &FromLauncher::Measured { id, figures }, &[]).unwrap();
            }
        };
        let ((private, share, measured), ()) = tokio::join!(ask, answer);
        assert_eq!((private, share, measured), (4 << 48, 2 << 48, 1));
        // A descriptor that it has no business to send ends it.
        let file = stdin();
        let started = FromLauncher::Started { id: 9, pid: -1 };
        control::send(&far, &started, &[file.as_fd()]).unwrap();
        assert!(launcher.ended().await.contains("neither a pidfd"));
    });
}

#[test]
fn launchers_that_failed_or_are_of_another_version_are_refused() {
    let check = |message: Option<FromLauncher>, expect: &str| {
        let (near, far) = control::pair().unwrap();
        if let Some(message) = message {
            control::send(&far, &message, &[]).unwrap();
        }
        drop(far);
        let error = Introduced::await_first(near, None).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    let hello = |version| FromLauncher::Hello {
        version,
        pid: 1,
        uid: 2,
        gid: 3,
    };
    check(None, "it has ended");
    check(Some(hello(VERSION + 1)), "another version of highball");
    let reason = "it may not".to_owned();
    check(Some(FromLauncher::Failed { reason }), "it may not");
    check(
        Some(FromLauncher::Started { id: 1, pid: 1 }),
        "something else",
    );
}
