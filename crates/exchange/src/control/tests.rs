//! Tests of the control messages over real socket pairs.

use super::*;

fn failed(message: &str, lines: usize) -> FromTemplate {
    FromTemplate::BootFailed {
        class: "RuntimeError".into(),
        message: message.into(),
        backtrace: (0..lines)
            .map(|line| format!("/app/config.ru:{line}:in `block'"))
            .collect(),
    }
}

#[test]
fn every_message_arrives_as_it_was_sent() {
    fn check<M: Message + PartialEq + std::fmt::Debug>(messages: Vec<M>) {
        let (near, far) = pair().unwrap();
        for message in messages {
            send(&near, &message, &[]).unwrap();
            let received = receive::<M>(&far).unwrap().unwrap();
            assert_eq!(received.message, message);
            assert!(received.fds.is_empty());
        }
    }
    check(vec![
        ToTemplate::Start(Box::new(Start {
            app: "/srv/app".into(),
            hooks: Some("/srv/app/config/highball.rb".into()),
            unix_sockets: vec!["/run/app.sock".into()],
            frequent_paths: Some(vec!["/".into()]),
            ..Start::default()
        })),
        ToTemplate::Fork { worker: 3 },
        ToTemplate::Exit,
    ]);
    check(vec![
        FromTemplate::Booted {
            pid: 12,
            ruby: "3.1.2".into(),
            rack: "2.2".into(),
            seconds: 1.5,
            held: vec!["a thread".into()],
            gems: vec!["a gem".into()],
            filter_parameters: vec!["iban".into()],
            public_folder: Some(PublicFolder {
                path: "/srv/public".into(),
                index: "index".into(),
                https_only: true,
                headers: vec![("Cache-Control".into(), "public".into())],
            }),
            runtime: vec![RuntimeOption {
                name: "jit".into(),
                value: "yjit".into(),
                reason: "enabled".into(),
            }],
        },
        failed("no\nway \u{0} \u{1F682}", 2),
        FromTemplate::Donor {
            lost: vec!["thread \"poll\"".into()],
        },
        FromTemplate::Forked { worker: 0, pid: 9 },
        FromTemplate::NotForked {
            worker: 0,
            reason: "Errno::ENOMEM: no memory".into(),
        },
        FromTemplate::Exited {
            worker: 0,
            pid: 9,
            status: "exit 1".into(),
        },
        FromTemplate::Counts {
            batch: r#"{"metrics":[]}"#.into(),
        },
    ]);
    check(vec![
        FromWorker::Ready { worker: 1, pid: 7 },
        FromWorker::Hijack {
            worker: 1,
            thread: 2,
            slot: 3,
            sequence: u64::MAX,
        },
        FromWorker::Body {
            thread: 1,
            slot: 3,
            sequence: 4_294_967_295,
        },
        FromWorker::Backtrace {
            slot: 3,
            sequence: u32::MAX,
            backtrace: vec!["app.rb:1:in `call'".into()],
        },
        FromWorker::Inspected {
            id: u32::MAX,
            text: "gc 1\n".into(),
            last: true,
        },
        FromWorker::Purge {
            id: u32::MAX,
            what: Purge::Tag("article-1".into()),
        },
        FromWorker::Counts {
            batch: r#"{"metrics":[]}"#.into(),
        },
        FromWorker::Error {
            message: "after_fork failed".into(),
        },
    ]);
    check(vec![
        ToWorker::Backtrace {
            thread: 2,
            slot: 3,
            sequence: u32::MAX,
        },
        ToWorker::Refork,
        ToWorker::Body {
            thread: 1,
            sequence: 4_294_967_295,
        },
        ToWorker::Purged {
            id: u32::MAX,
            result: Purged::Urls(7),
        },
        ToWorker::Purged {
            id: 0,
            result: Purged::NoCache,
        },
        ToWorker::Inspect {
            id: u32::MAX,
            what: Inspect::Profile {
                milliseconds: 10,
                mode: ProfileMode::Wall,
            },
        },
        ToWorker::Inspect {
            id: 0,
            what: Inspect::Gc,
        },
    ]);
}

#[test]
fn file_descriptors_travel_in_order_and_open_the_same_files() {
    let (near, far) = pair().unwrap();
    let (first, first_peer) = pair().unwrap();
    let (second, second_peer) = pair().unwrap();
    let fds = [first.as_fd(), second.as_fd()];
    send(&near, &ToTemplate::Fork { worker: 0 }, &fds).unwrap();
    let received = receive::<ToTemplate>(&far).unwrap().unwrap();
    assert_eq!(received.fds.len(), 2);
    for (worker, (fd, peer)) in received
        .fds
        .iter()
        .zip([first_peer, second_peer])
        .enumerate()
    {
        let message = ToTemplate::Fork {
            worker: worker as u16,
        };
        send(fd, &message, &[]).unwrap();
        let arrived = receive::<ToTemplate>(&peer).unwrap().unwrap();
        assert_eq!(arrived.message, message);
        assert!(
            rustix::io::fcntl_getfd(fd)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
    }
}

#[test]
fn only_fd_refuses_none_and_several() {
    let (one, two) = pair().unwrap();
    let received = |fds| Received { message: (), fds };
    assert!(received(vec![]).only_fd().is_err());
    assert!(
        received(vec![one.try_clone().unwrap(), two])
            .only_fd()
            .is_err()
    );
    assert!(received(vec![one]).only_fd().is_ok());
}

#[test]
fn too_many_file_descriptors_are_refused_by_the_sender() {
    let (near, _far) = pair().unwrap();
    let fds = [near.as_fd(); MAX_FDS + 1];
    let result = send(&near, &ToTemplate::Exit, &fds);
    assert!(matches!(result, Err(Error::TooManyFds)));
    send(&near, &ToTemplate::Exit, &fds[..MAX_FDS]).unwrap();
}

#[test]
fn the_backtrace_of_a_late_request_is_shortened_at_its_outer_end() {
    let message = FromWorker::Backtrace {
        slot: 1,
        sequence: 2,
        backtrace: (0..10_000).map(|line| format!("app.rb:{line}")).collect(),
    };
    let bytes = encode(&message).unwrap();
    assert!(bytes.len() <= LIMIT);
    let Ok(FromWorker::Backtrace { backtrace, .. }) = decode(&bytes) else {
        panic!("another message");
    };
    assert_eq!(backtrace[0], "app.rb:0");
    let note = backtrace.last().unwrap();
    assert!(note.ends_with(" more lines)"), "{note}");
}

#[test]
fn a_long_backtrace_is_shortened_with_a_note() {
    for message in [
        failed("boom", 10_000),
        failed(&"\u{1}".repeat(LIMIT), 10_000),
    ] {
        let bytes = encode(&message).unwrap();
        assert!(bytes.len() <= LIMIT);
        let FromTemplate::BootFailed {
            message, backtrace, ..
        } = decode(&bytes).unwrap()
        else {
            panic!("another message");
        };
        assert!(message.starts_with("boom") || message.ends_with("more bytes)"));
        assert!(backtrace[0].starts_with("/app/config.ru:0"));
        let last = backtrace.last().unwrap();
        assert!(last.contains("more lines"), "{last}");
        let kept = backtrace.len() - 1;
        assert!(last.contains(&format!("{}", 10_000 - kept)));
    }
}

#[test]
fn a_long_error_is_cut_at_a_character_border() {
    for text in ["x", "\u{1F682}", "\u{0}"] {
        let message = FromWorker::Error {
            message: text.repeat(LIMIT),
        };
        let bytes = encode(&message).unwrap();
        assert!(bytes.len() <= LIMIT);
        decode::<FromWorker>(&bytes).unwrap();
    }
}

#[test]
fn long_and_many_sentences_are_shortened_with_a_note() {
    let sentence = "n".repeat(5000);
    let bytes = encode(&FromTemplate::Booted {
        pid: 1,
        ruby: String::new(),
        rack: String::new(),
        seconds: 0.0,
        held: vec![sentence.clone(); 1000],
        gems: vec![sentence.clone(); 1000],
        filter_parameters: vec![sentence; 1000],
        public_folder: None,
        runtime: vec![
            RuntimeOption {
                reason: "n".repeat(5000),
                ..RuntimeOption::default()
            };
            4
        ],
    })
    .unwrap();
    assert!(bytes.len() <= LIMIT);
    let FromTemplate::Booted { held, gems, .. } = decode(&bytes).unwrap() else {
        panic!("another message");
    };
    for list in [held, gems] {
        assert!(list.len() > 1 && list.last().unwrap().contains("more lines"));
    }
}

#[test]
fn what_must_arrive_whole_is_an_error_when_too_long() {
    let start = ToTemplate::Start(Box::new(Start {
        app: "x".repeat(LIMIT),
        ..Start::default()
    }));
    assert!(matches!(encode(&start), Err(Error::TooLong(_))));
}

#[test]
fn a_start_that_is_too_long_goes_without_frequent_paths() {
    let start = |frequent_paths| {
        ToTemplate::Start(Box::new(Start {
            warm_up: vec!["/listed".repeat(LIMIT / 10)],
            frequent_paths: Some(frequent_paths),
            ..Start::default()
        }))
    };
    let bytes = encode(&start(vec!["/x".repeat(LIMIT / 4)])).unwrap();
    assert_eq!(decode::<ToTemplate>(&bytes).unwrap(), start(Vec::new()));
}

#[test]
fn the_end_of_the_peer_is_none_even_with_messages_unread() {
    let (near, far) = pair().unwrap();
    drop(far);
    assert!(receive::<ToTemplate>(&near).unwrap().is_none());
    let result = send(&near, &ToTemplate::Exit, &[]);
    assert!(matches!(result, Err(Error::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe));

    let (near, far) = pair().unwrap();
    send(&near, &ToTemplate::Exit, &[]).unwrap();
    drop(far);
    assert!(receive::<ToTemplate>(&near).unwrap().is_none());
}

#[test]
fn messages_sent_before_the_end_still_arrive() {
    let (near, far) = pair().unwrap();
    send(&far, &ToTemplate::Exit, &[]).unwrap();
    drop(far);
    assert!(receive::<ToTemplate>(&near).unwrap().is_some());
    assert!(receive::<ToTemplate>(&near).unwrap().is_none());
}

#[test]
fn the_last_words_of_a_peer_arrive_though_it_left_a_message_unread() {
    for waiting in [true, false] {
        let (near, far) = pair().unwrap();
        let last = || match waiting {
            true => receive::<ToTemplate>(&near),
            false => try_receive::<ToTemplate>(&near),
        };
        send(&near, &ToTemplate::Exit, &[]).unwrap();
        send(&far, &ToTemplate::Fork { worker: 9 }, &[]).unwrap();
        drop(far);
        let received = last().unwrap().expect("the last words");
        assert_eq!(received.message, ToTemplate::Fork { worker: 9 });
        assert!(last().unwrap().is_none());
    }
}

#[test]
fn the_try_forms_do_not_wait() {
    let (near, far) = pair().unwrap();
    assert!(try_receive::<ToTemplate>(&far).unwrap_err().would_block());
    let mut sent = 0;
    let error = loop {
        match try_send(&near, &ToTemplate::Fork { worker: 0 }, &[]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(error.would_block());
    assert!(sent > 0);
    for _ in 0..sent {
        assert!(try_receive::<ToTemplate>(&far).unwrap().is_some());
    }
}

#[test]
fn what_is_no_message_is_malformed() {
    let (near, far) = pair().unwrap();
    for bytes in [&b"{"[..], b"{\"Burn\":{}}", b"\"Exit\" more", b"\xff", b" "] {
        send_bytes(near.as_fd(), bytes, &[], SendFlags::empty()).unwrap();
        let result = receive::<ToTemplate>(&far);
        assert!(matches!(result, Err(Error::Malformed(_))), "{bytes:?}");
    }
    send_bytes(near.as_fd(), &[b'x'; LIMIT + 1], &[], SendFlags::empty()).unwrap();
    let result = receive::<ToTemplate>(&far);
    assert!(matches!(result, Err(Error::Malformed(text)) if text.contains("longer")));
}
