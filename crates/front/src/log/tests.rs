//! The lines, byte by byte, and an output that is slow, full or gone.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use config::{LogField, LogFields};
use exchange::measures::Measures;

use super::writer::MAX_WAITING_BYTES;
use super::{AccessLog, AppError, Entry, Format, Late, Level, Levels, Value};

const ENTRY: Entry<'_> = Entry {
    path: b"/x?y=1",
    status: Some(200),
    bytes: 123,
    queue: Some(Duration::from_micros(124)),
    app: Some(Duration::from_micros(3_396)),
    worker: Some(1),
    generation: Some(2),
    ..Entry::new(TIMES, b"GET", "ok")
};

const TIMES: LogFields = LogFields::NONE
    .with(LogField::Bytes)
    .with(LogField::QueueMs)
    .with(LogField::AppMs);

const ERROR: AppError<'_> = AppError {
    method: b"GET",
    path: b"/x",
    worker: Some(1),
    generation: Some(1),
    request_id: None,
    trace: None,
    class: b"Foo::Error",
    message: b"no \"x\"\nat all",
    backtrace: b"app.rb:3:in `call'\nrack.rb:1:in \x1b[31m'\n",
};

/// An output that can be read afterwards.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).expect("the log is valid UTF-8")
    }
}

#[test]
fn lines_of_several_threads_are_whole_and_none_is_lost() {
    let output = Output::default();
    let log = AccessLog::new(Format::Logfmt, output.clone()).unwrap();
    let threads = [1, 2, 3].map(|number| {
        let log = log.for_thread();
        std::thread::spawn(move || {
            let log = log.open();
            for _ in 0..1000 {
                log.event(Level::Info, &format!("thread {number}"), &[]);
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    log.event(Level::Info, "last", &[]);
    drop(log);
    let text = output.text();
    for number in [1, 2, 3] {
        let line = format!(" level=info message=\"thread {number}\"");
        let count = text.lines().filter(|one| one.ends_with(&line)).count();
        assert_eq!(count, 1000, "{line}");
    }
    assert!(text.lines().last().is_some_and(|one| one.contains("last")));
}

fn all_fields() -> LogFields {
    TIMES
        .with(LogField::Client)
        .with(LogField::Host)
        .with(LogField::Protocol)
        .with(LogField::UserAgent)
        .with(LogField::Referer)
        .with(LogField::RequestId)
        .with(LogField::BytesIn)
        .with(LogField::Encoding)
        .with(LogField::Route)
        .with(LogField::DbMs)
        .with(LogField::ViewMs)
        .with(LogField::GcMs)
        .with(LogField::CpuMs)
        .with(LogField::LockMs)
        .with(LogField::Allocations)
        .with(LogField::Queries)
}

/// What a log says when `act` has acted and it has ended.
fn logged(format: Format, act: impl FnOnce(&AccessLog)) -> String {
    let output = Output::default();
    let log = AccessLog::new(format, output.clone()).unwrap();
    act(&log);
    drop(log);
    output.text()
}

/// The same without the time stamp, whose form is checked.
fn without_time(line: &str) -> String {
    let at = line.find("time").unwrap() + line[4..].find('2').unwrap_or_default();
    let start = line[at..].find('2').unwrap() + at;
    let (stamp, rest) = line[start..].split_at("2026-01-01T00:00:00.000Z".len());
    let form: String = stamp
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(form, "0000-00-00T00:00:00.000Z");
    format!("{}{rest}", &line[..start])
}

fn path_line(format: Format, path: &[u8]) -> String {
    logged(format, |log| log.record(&Entry { path, ..ENTRY }))
}

#[test]
fn a_request_is_one_line_of_text() {
    let line = logged(Format::Logfmt, |log| log.record(&ENTRY));
    assert_eq!(
        without_time(&line),
        "time= method=GET path=\"/x?y=1\" status=200 bytes=123 queue_ms=0.12 app_ms=3.40 worker=1 generation=2 outcome=ok\n"
    );
}

#[test]
fn a_request_is_one_line_of_json_with_the_same_keys() {
    let line = logged(Format::Json, |log| log.record(&ENTRY));
    assert_eq!(
        without_time(&line),
        "{\"time\":\"\",\"method\":\"GET\",\"path\":\"/x?y=1\",\"status\":200,\"bytes\":123,\"queue_ms\":0.12,\
         \"app_ms\":3.40,\"worker\":1,\"generation\":2,\"outcome\":\"ok\"}\n"
    );
}

#[test]
fn what_is_unknown_is_marked() {
    let entry = Entry {
        path: b"",
        bytes: u64::MAX,
        app: Some(Duration::ZERO),
        ..Entry::new(all_fields(), b"", "client_closed")
    };
    assert_eq!(
        without_time(&logged(Format::Logfmt, |log| log.record(&entry))),
        "time= method=\"\" path=\"\" status=- bytes=18446744073709551615 encoding=- bytes_in=- queue_ms=- app_ms=0.00 worker=- \
         generation=- route=- db_ms=- view_ms=- gc_ms=- cpu_ms=- lock_ms=- allocations=- queries=- request_id=- client=- host=- protocol=- user_agent=- referer=- outcome=client_closed\n"
    );
    let json = logged(Format::Json, |log| log.record(&entry));
    assert!(json.contains("\"status\":null,") && json.contains("\"worker\":null,"));
}

#[test]
fn what_a_request_cost_is_logged_where_it_was_asked_for() {
    let entry = Entry {
        fields: all_fields(),
        measures: Some(Measures {
            shared: false,
            overlapped: false,
            cpu_ns: 1_500_000,
            gc_ns: 20_000,
            allocations: 1234,
            db_ns: Some(2_000_000),
            view_ns: None,
            lock_wait_ns: Some(3_500_000),
            queries: Some(3),
            route: b"/books/\n:id",
        }),
        ..ENTRY
    };
    let line = logged(Format::Logfmt, |log| log.record(&entry));
    let measures = "route=\"/books/\\n:id\" db_ms=2.00 view_ms=- gc_ms=0.02 cpu_ms=1.50 lock_ms=3.50 allocations=1234 queries=3";
    assert!(line.contains(measures), "{line}");
    let text = logged(Format::Text, |log| log.record(&entry));
    for note in [
        " db=2.0ms",
        " view=-",
        " gc=0.0ms",
        " cpu=1.5ms",
        " lock=3.5ms",
    ] {
        assert!(text.contains(note), "{text}");
    }
    assert!(text.contains(" allocations=1234  queries=3"), "{text}");
    let chosen = logged(Format::Logfmt, |log| {
        let fields = LogFields::NONE.with(LogField::Queries);
        log.record(&Entry { fields, ..entry });
    });
    assert!(chosen.contains(" queries=3 ") && !chosen.contains("route="));
}

#[test]
fn the_fields_that_were_chosen_are_logged() {
    let long = "x".repeat(600);
    let entry = Entry {
        client: Some("192.0.2.1"),
        host: Some(b"example.com"),
        protocol: Some("HTTP/1.1"),
        user_agent: Some(long.as_bytes()),
        referer: Some(b"http://a/\"?b"),
        request_id: Some(b"0192-a_b"),
        bytes_in: Some(7),
        encoding: Some("zstd"),
        ..ENTRY
    };
    let fields = LogFields::NONE
        .with(LogField::Client)
        .with(LogField::RequestId)
        .with(LogField::BytesIn)
        .with(LogField::Encoding);
    assert_eq!(
        without_time(&logged(Format::Logfmt, |log| log.record(&Entry { fields, ..entry }))),
        "time= method=GET path=\"/x?y=1\" status=200 encoding=zstd bytes_in=7 worker=1 generation=2 request_id=0192-a_b \
         client=\"192.0.2.1\" outcome=ok\n"
    );
    let fields = all_fields();
    let line = logged(Format::Json, |log| log.record(&Entry { fields, ..entry }));
    for part in [
        ",\"host\":\"example.com\",\"protocol\":\"HTTP/1.1\",",
        ",\"referer\":\"http://a/\\\"?b\",",
        &format!(",\"user_agent\":\"{}…\",", "x".repeat(512)),
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let fields = LogFields::NONE;
    assert_eq!(
        without_time(&logged(Format::Logfmt, |log| log.record(&Entry { fields, ..entry }))),
        "time= method=GET path=\"/x?y=1\" status=200 worker=1 generation=2 outcome=ok\n"
    );
}

#[test]
fn nothing_of_a_request_is_logged_raw() {
    for (path, text, json) in [
        (&b"/a\"b\\c"[..], r#"/a\"b\\c"#, r#"/a\"b\\c"#),
        (b"/\n\r\t", r"/\n\r\t", r"/\n\r\t"),
        (
            b"/\0\x1b[31m\x7f",
            r"/\x00\x1b[31m\x7f",
            r"/\u0000\u001b[31m\u007f",
        ),
        (
            b"/\xff\xc3\x28\xc3",
            r"/\xff\xc3(\xc3",
            r"/\\xff\\xc3(\\xc3",
        ),
        ("/é…".as_bytes(), "/é…", "/é…"),
        (
            "/\u{85}\u{2028}\u{202e}".as_bytes(),
            r"/\u{0085}\u{2028}\u{202e}",
            r"/\u0085\u2028\u202e",
        ),
    ] {
        assert!(
            path_line(Format::Logfmt, path).contains(&format!("path=\"{text}\" status")),
            "{text}"
        );
        assert!(
            path_line(Format::Json, path).contains(&format!("\"path\":\"{json}\",\"status\"")),
            "{json}"
        );
    }
    let all: Vec<u8> = (0..=255).collect();
    let entry = Entry {
        method: &all,
        path: &all,
        ..ENTRY
    };
    let error = AppError {
        method: &all,
        path: &all,
        class: &all,
        message: &all,
        backtrace: &all,
        ..ERROR
    };
    for format in [Format::Logfmt, Format::Json] {
        let lines = logged(format, |log| {
            log.record(&entry);
            log.event(
                Level::Info,
                "\x1b\u{9b}\0\n",
                &[("key", Value::Text(&"\x1b\n"))],
            );
            log.app_error(&error);
        });
        assert!(
            !lines
                .chars()
                .any(|character| character.is_control() && character != '\n'),
            "{lines:?}"
        );
        // The backtrace holds a line end, so that in text it is two lines more.
        assert_eq!(
            lines.lines().count(),
            if format == Format::Logfmt { 5 } else { 3 },
            "{lines}"
        );
    }
}

#[test]
fn a_long_path_is_cut_with_a_mark() {
    let shown = |path: &[u8]| {
        let line = path_line(Format::Logfmt, path);
        let start = line.find("path=\"").unwrap() + 6;
        line[start..line.find("\" status").unwrap()].to_owned()
    };
    assert_eq!(shown(&[b'a'; 2048]), "a".repeat(2048));
    assert_eq!(shown(&[b'a'; 2049]), format!("{}…", "a".repeat(2048)));
    // Not within a character.
    assert_eq!(
        shown("é".repeat(1025).as_bytes()),
        format!("{}…", "é".repeat(1024))
    );
    assert_eq!(
        shown(format!("a{}", "é".repeat(1024)).as_bytes()),
        format!("a{}…", "é".repeat(1023))
    );
    assert_eq!(shown(&[0x80; 3000]), format!("{}…", r"\x80".repeat(2048)));
}

#[test]
fn events_have_a_level_a_message_and_pairs() {
    let pairs = &[
        ("pid", Value::Number(42)),
        ("why", Value::Text(&"it's \"so\"")),
    ];
    let event = |format| {
        without_time(&logged(format, |log| {
            log.event(Level::Warn, "ready: 2 workers", pairs)
        }))
    };
    assert_eq!(
        event(Format::Logfmt),
        "time= level=warn message=\"ready: 2 workers\" pid=42 why=\"it's \\\"so\\\"\"\n"
    );
    assert_eq!(
        event(Format::Json),
        "{\"time\":\"\",\"level\":\"warn\",\"message\":\"ready: 2 workers\",\"pid\":42,\"why\":\"it's \\\"so\\\"\"}\n"
    );
}

#[test]
fn application_errors_have_their_backtrace() {
    assert_eq!(
        without_time(&logged(Format::Logfmt, |log| log.app_error(&ERROR))),
        "time= level=error class=\"Foo::Error\" message=\"no \\\"x\\\"\\nat all\" method=GET path=\"/x\" worker=1 \
         generation=1\n  | app.rb:3:in `call'\n  | rack.rb:1:in \\x1b[31m'\n"
    );
    let json = logged(Format::Json, |log| log.app_error(&ERROR));
    assert!(
        json.ends_with(",\"backtrace\":[\"app.rb:3:in `call'\",\"rack.rb:1:in \\u001b[31m'\"]}\n"),
        "{json}"
    );
    let long = "a.rb:1\n".repeat(10_000);
    let lines = logged(Format::Logfmt, |log| {
        log.app_error(&AppError {
            backtrace: long.as_bytes(),
            ..ERROR
        })
    });
    assert!(lines.len() < 60_000 && lines.ends_with("\n  | …\n"));
}

#[test]
fn a_late_request_is_a_line_with_the_backtrace_of_its_thread() {
    let late = Late {
        message: "late",
        method: b"GET",
        path: b"/x\n",
        app: Duration::from_millis(1500),
        worker: Some(1),
        generation: Some(2),
        request_id: None,
        trace: None,
        backtrace: b"app.rb:3:in \x1b`call'\nrack.rb:1",
    };
    assert_eq!(
        without_time(&logged(Format::Logfmt, |log| log.late(&late))),
        "time= level=warn message=\"late\" method=GET path=\"/x\\n\" app_ms=1500.00 worker=1 generation=2\n  \
         | app.rb:3:in \\x1b`call'\n  | rack.rb:1\n"
    );
    let untold = Late {
        backtrace: b"",
        ..late
    };
    assert_eq!(
        without_time(&logged(Format::Json, |log| log.late(&untold))),
        "{\"time\":\"\",\"level\":\"warn\",\"message\":\"late\",\"method\":\"GET\",\"path\":\"/x\\n\",\"app_ms\":1500.00,\
         \"worker\":1,\"generation\":2,\"backtrace\":[]}\n"
    );
}

#[test]
fn every_line_arrives_in_order() {
    let lines = logged(Format::Logfmt, |log| {
        for bytes in 0..20_000 {
            log.record(&Entry { bytes, ..ENTRY });
            if bytes % 1000 == 0 {
                log.flush();
            }
        }
    });
    let numbers: Vec<u64> = lines
        .lines()
        .map(|line| {
            line.split("bytes=")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert_eq!(numbers, (0..20_000).collect::<Vec<_>>());
}

/// An output that takes nothing until it is opened, and reports when it is first asked.
struct Gate {
    open: Arc<(Mutex<bool>, Condvar)>,
    asked: Sender<()>,
    output: Output,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.asked.send(());
        drop(
            self.open
                .1
                .wait_while(self.open.0.lock().unwrap(), |open| !*open)
                .unwrap(),
        );
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Opener = Arc<(Mutex<bool>, Condvar)>;

fn gated() -> (AccessLog, Opener, Receiver<()>, Output) {
    let (asked, is_asked) = channel();
    let (open, output) = (Opener::default(), Output::default());
    let gate = Gate {
        open: open.clone(),
        asked,
        output: output.clone(),
    };
    (
        AccessLog::new(Format::Logfmt, gate).unwrap(),
        open,
        is_asked,
        output,
    )
}

fn open(gate: &Opener) {
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
}

#[test]
fn lines_that_a_stuck_output_does_not_take_are_dropped_and_counted() {
    let (log, gate, _is_asked, output) = gated();
    let line_bytes = logged(Format::Logfmt, |log| log.record(&ENTRY)).len();
    let lines = 2 * MAX_WAITING_BYTES / line_bytes;
    for _ in 0..lines {
        log.record(&ENTRY);
    }
    open(&gate);
    // Once the output has taken everything there is room again, and the count is logged.
    while !output.text().contains("were dropped") {
        std::thread::yield_now();
    }
    log.record(&ENTRY);
    drop(log);
    let text = output.text();
    let (counted, kept): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.contains("were dropped"));
    let dropped: usize = counted
        .iter()
        .map(|line| {
            line.split("lines=")
                .nth(1)
                .unwrap()
                .parse::<usize>()
                .unwrap()
        })
        .sum();
    assert!(dropped > lines / 3, "{counted:?}");
    assert_eq!(kept.len() + dropped, lines + 1);
    assert!(kept.len() * line_bytes <= MAX_WAITING_BYTES + line_bytes);
}

#[test]
fn an_event_is_written_without_a_flush() {
    let (log, gate, is_asked, _output) = gated();
    log.event(Level::Info, "ready", &[]);
    is_asked
        .recv_timeout(Duration::from_secs(10))
        .expect("the writer is asked to write");
    open(&gate);
    drop(log);
}

#[test]
fn lines_of_a_start_do_not_wait_for_a_stuck_output() {
    let (log, gate, is_asked, output) = gated();
    log.announce("listening on http://127.0.0.1:1");
    is_asked.recv().unwrap();
    log.announce("ready");
    assert_eq!(output.text(), "");
    open(&gate);
    drop(log);
    assert_eq!(output.text(), "listening on http://127.0.0.1:1\nready\n");
}

#[test]
fn the_end_does_not_wait_for_ever_for_a_stuck_output() {
    let (log, gate, is_asked, output) = gated();
    log.event(Level::Info, "ready", &[]);
    is_asked.recv().unwrap();
    drop(log);
    assert_eq!(output.text(), "");
    open(&gate);
}

/// An output that fails with each of the errors, the last one first, and then takes ten bytes at a time.
struct Faulty(Vec<ErrorKind>, Output);

impl Write for Faulty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.pop() {
            Some(kind) => Err(kind.into()),
            None => self.1.write(&bytes[..bytes.len().min(10)]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_costs_lines_and_not_the_log() {
    let output = Output::default();
    let faulty = Faulty(vec![ErrorKind::StorageFull], output.clone());
    let log = AccessLog::new(Format::Logfmt, faulty).unwrap();
    log.event(Level::Info, "lost", &[]);
    // Logged without a further line.
    while !output.text().contains("were dropped") {
        std::thread::yield_now();
    }
    log.event(Level::Info, "kept", &[]);
    drop(log);
    let text = output.text();
    assert!(
        text.contains(" lines=1\n") && !text.contains("\"lost\"") && text.contains("\"kept\""),
        "{text}"
    );
}

/// A disk with so many bytes left; `Arc` so that the test can make room.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<usize>>, Output);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut left = self.0.lock().unwrap();
        let taken = bytes.len().min(*left);
        if taken == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        *left -= taken;
        self.1.write(&bytes[..taken])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_stays_full_loses_no_count_and_tears_one_line_at_most() {
    let disk = Disk::default();
    let line_bytes = logged(Format::Logfmt, |log| log.record(&ENTRY)).len();
    *disk.0.lock().unwrap() = 10 * line_bytes + 7;
    let log = AccessLog::new(Format::Logfmt, disk.clone()).unwrap();
    for _ in 0..100 {
        log.record(&ENTRY);
        log.flush();
    }
    let full = || *disk.0.lock().unwrap() == 0;
    while !full() {
        std::thread::yield_now();
    }
    // The count is kept while there is no room to log it.
    for _ in 0..20 {
        log.record(&ENTRY);
        log.flush();
    }
    *disk.0.lock().unwrap() = usize::MAX;
    log.record(&ENTRY);
    drop(log);
    let text = disk.1.text();
    let whole = |line: &&str| line.starts_with("time=") && line.ends_with("outcome=ok");
    let kept = text.lines().filter(whole).count();
    let counted = text.lines().filter_map(|line| line.split_once(" lines="));
    let counted: usize = counted
        .map(|(_, lines)| lines.parse::<usize>().unwrap())
        .sum();
    assert_eq!(kept + counted, 121, "{text}");
    // The torn one and the notices.
    let others = text.lines().filter(|line| !whole(line)).count();
    let notices = text.matches("were dropped").count();
    assert!(others <= notices + 1, "{text}");
}

#[test]
fn an_interrupted_or_non_blocking_output_loses_nothing() {
    let output = Output::default();
    let faulty = Faulty(
        vec![
            ErrorKind::WouldBlock,
            ErrorKind::Interrupted,
            ErrorKind::WouldBlock,
        ],
        output.clone(),
    );
    let log = AccessLog::new(Format::Logfmt, faulty).unwrap();
    log.event(Level::Info, "kept", &[]);
    drop(log);
    assert!(output.text().ends_with("message=\"kept\"\n"));
}

#[test]
fn a_pipe_that_nobody_reads_gives_way_to_the_file_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, mode, 0).unwrap();
    let reader = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path);
    let output = super::output::Output::file(path.clone()).unwrap();
    let log = AccessLog::over(Format::Logfmt, output, None, None).unwrap();
    // More than a pipe holds.
    for number in 0..20_000 {
        log.event(Level::Info, &format!("line {number:05}"), &[]);
    }
    std::fs::rename(&path, folder.path().join("pipe")).unwrap();
    log.reopen();
    drop(log);
    drop(reader);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("time=") && text.ends_with("\"line 19999\"\n"),
        "{text}"
    );
    assert!(!text.contains("were dropped"), "{text}");
}

/// Keeps what it is given at once apart.
#[derive(Clone, Default)]
struct Pieces(Arc<Mutex<Vec<Vec<u8>>>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_pipe_gets_whole_lines_that_it_takes_in_one_piece() {
    let pieces = Pieces::default();
    let mut in_pieces = super::output::Output::stream(pieces.clone());
    in_pieces.most_bytes = 1000;
    let log = AccessLog::over(Format::Logfmt, in_pieces, None, None).unwrap();
    let long = [b'x'; 1500];
    for number in 0..50 {
        let path = if number == 20 { &long[..] } else { b"/" };
        log.record(&Entry { path, ..ENTRY });
    }
    drop(log);
    let pieces = pieces.0.lock().unwrap();
    assert!(pieces.len() > 5 && pieces.len() < 20, "{}", pieces.len());
    let lines = |piece: &[u8]| piece.iter().filter(|&&byte| byte == b'\n').count();
    for piece in pieces.iter() {
        assert!(piece.ends_with(b"\n"));
        assert!(piece.len() <= 1000 || lines(piece) == 1, "{}", piece.len());
    }
    assert_eq!(pieces.iter().map(|piece| lines(piece)).sum::<usize>(), 50);
}

#[test]
fn lines_of_one_of_several_applications_name_it() {
    let pieces = Pieces::default();
    let log = AccessLog::new(Format::Logfmt, pieces.clone()).unwrap();
    let shop = log.of_application("shop");
    log.event(Level::Info, "of the server", &[]);
    shop.event(Level::Info, "of the shop", &[]);
    shop.record(&ENTRY);
    drop((log, shop));
    let written = pieces.0.lock().unwrap().concat();
    let text = String::from_utf8(written).unwrap();
    let named: Vec<bool> = text
        .lines()
        .map(|line| line.contains(" application=shop "))
        .collect();
    assert_eq!(named, [false, true, true], "{text}");
}

#[test]
fn events_below_the_level_are_not_written_at_any_thread() {
    let output = Output::default();
    let log = AccessLog::new(Format::Logfmt, output.clone()).unwrap();
    let other = log.for_thread().open();
    let each = || {
        for log in [&log, &other, &log.of_application("shop")] {
            for level in Level::ALL {
                log.event(level, "event", &[]);
            }
            log.record(&ENTRY);
            log.app_error(&ERROR);
            log.flush();
        }
    };
    for (level, events) in [(Level::Info, 9), (Level::Warn, 6), (Level::Error, 3)] {
        output.0.lock().unwrap().clear();
        log.set_level(Some(level));
        each();
        while output.text().matches("class=").count() < 3 {
            std::thread::yield_now();
        }
        let text = output.text();
        assert_eq!(text.matches("\"event\"").count(), events, "{text}");
        assert_eq!(text.matches(" outcome=ok").count(), 3, "{text}");
    }
    // A change is said at any level, and what a start announces as well.
    assert!(output.text().contains("\"log level: warn -> error\""));
    log.announce("listening");
    drop((other, log));
    assert!(output.text().contains("listening"));
}

#[test]
fn an_operators_level_holds_until_the_setting_changes() {
    let log = AccessLog::new(Format::Logfmt, Output::default()).unwrap();
    let other = log.for_thread().open();
    let is = |setting, current| assert_eq!(log.levels(), Levels { setting, current });
    let apply = |level| {
        for log in [&log, &other] {
            log.shared.levels.apply(level);
        }
    };
    is(Level::Info, Level::Info);
    log.set_level(Some(Level::Error));
    apply(Level::Info);
    is(Level::Info, Level::Error);
    apply(Level::Warn);
    is(Level::Warn, Level::Warn);
    log.set_level(Some(Level::Info));
    // A thread that applies the settings late ends nothing.
    other.shared.levels.apply(Level::Warn);
    is(Level::Warn, Level::Info);
    log.set_level(None);
    is(Level::Warn, Level::Warn);
}

#[test]
fn a_line_names_the_trace_where_it_is_asked_for() {
    let text = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let parent = traces::Parent::parse(text).unwrap();
    let fields = LogFields::NONE
        .with(LogField::TraceId)
        .with(LogField::SpanId);
    let traced = Entry {
        trace: Some((parent.trace_id, parent.span_id)),
        ..Entry::new(fields, b"GET", "ok")
    };
    let none = Entry::new(fields, b"GET", "ok");
    let unasked = Entry {
        fields: LogFields::NONE,
        ..traced
    };
    for (format, entry, expected) in [
        (
            Format::Logfmt,
            traced,
            "trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331",
        ),
        (
            Format::Json,
            traced,
            "\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\",\"span_id\":\"b7ad6b7169203331\"",
        ),
        (
            Format::Text,
            traced,
            "trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331",
        ),
        (Format::Logfmt, none, "trace_id=- span_id=-"),
        (Format::Json, none, "\"trace_id\":null,\"span_id\":null"),
    ] {
        let line = logged(format, |log| log.record(&entry));
        let words: Vec<_> = line.split_whitespace().collect();
        assert!(words.join(" ").contains(expected), "{line}");
    }
    let line = logged(Format::Json, |log| log.record(&unasked));
    assert!(!line.contains("trace_id"), "{line}");
    let error = AppError {
        trace: traced.trace,
        ..ERROR
    };
    let line = logged(Format::Json, |log| log.app_error(&error));
    assert!(line.contains("\"trace_id\":\"0af76519"), "{line}");
}
