//! Debuggers in a real pseudo-terminal: who reads what is typed, what Ctrl-C does, and what the terminal is left like.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};
use test_support::{Application, Client, Process, TEST_TIMEOUT, binary, ruby_library, until};

/// Ctrl-C, as a terminal sends it.
const CTRL_C: &str = "\x03";

/// A server in a terminal of its own, in the environment development. script(1) makes the terminal.
struct Session {
    script: Child,
    keys: Keys,
    screen: Arc<Screen>,
    address: SocketAddr,
    pid: Process,
}

/// What is typed; the terminal itself answers there as well.
type Keys = Arc<Mutex<ChildStdin>>;

/// The question where the cursor is, and an answer (ECMA-48, DSR and CPR). Reline waits for one.
const CURSOR_QUESTION: &[u8] = b"\x1b[6n";
const CURSOR_ANSWER: &[u8] = b"\x1b[1;2R";

/// What the terminal has shown, without escape sequences.
#[derive(Default)]
struct Screen {
    text: Mutex<String>,
    changed: Condvar,
}

impl Screen {
    /// Waits for a text after a position. Returns the position after it.
    #[track_caller]
    fn wait(&self, from: usize, wanted: &str) -> usize {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut text = self.text.lock().expect("no test failed with it");
        loop {
            if let Some(at) = text[from..].find(wanted) {
                return from + at + wanted.len();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {wanted:?} after {from} in:\n{text}");
            let waited = self.changed.wait_timeout(text, left);
            text = waited.expect("no test failed with it").0;
        }
    }

    fn follow(&self, mut output: impl Read, keys: &Keys) {
        let mut bytes = [0; 4096];
        let mut rest = Vec::new();
        while let Ok(read @ 1..) = output.read(&mut bytes) {
            rest.extend_from_slice(&bytes[..read]);
            let (shown, questions) = take_shown(&mut rest);
            for _ in 0..questions {
                let mut keys = keys.lock().expect("no test failed with it");
                keys.write_all(CURSOR_ANSWER)
                    .expect("the terminal is there");
            }
            self.text
                .lock()
                .expect("no test failed with it")
                .push_str(&shown);
            self.changed.notify_all();
        }
    }
}

/// Takes the text out of what a terminal gets, and counts the questions where the cursor is. An escape sequence that is not
/// whole stays.
fn take_shown(bytes: &mut Vec<u8>) -> (String, usize) {
    let (mut shown, mut questions) = (Vec::new(), 0);
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != 0x1b {
            shown.push(bytes[at]);
            at += 1;
            continue;
        }
        // A control sequence ends with a letter or `~`; other sequences have one byte more.
        let end = match bytes.get(at + 1) {
            Some(b'[') => bytes[at + 2..]
                .iter()
                .position(|byte| (0x40..=0x7e).contains(byte)),
            Some(_) => Some(0),
            None => None,
        };
        let Some(end) = end else { break };
        questions += usize::from(bytes[at..].starts_with(CURSOR_QUESTION));
        at += match bytes[at + 1] {
            b'[' => end + 3,
            _ => 2,
        };
    }
    bytes.drain(..at);
    (String::from_utf8_lossy(&shown).into_owned(), questions)
}

impl Session {
    /// Serves an application with these flags, and waits until it is ready.
    fn start(application: &Application, flags: &str) -> Self {
        let folder = application.path();
        // A terminal of no size would be none that a person has.
        let line = format!(
            "stty rows 50 columns 120; exec {} serve {} --listen 127.0.0.1:0 --environment development {flags}",
            binary().display(),
            folder.display()
        );
        let path = std::env::var("PATH").unwrap_or_default();
        let mut script = Command::new("script")
            .args([
                "--quiet",
                "--flush",
                "--return",
                "--command",
                &line,
                "/dev/null",
            ])
            .current_dir(folder)
            .env_clear()
            .envs([
                ("PATH", &*path),
                ("TERM", "xterm"),
                ("LANG", "C.UTF-8"),
                ("SHELL", "/bin/sh"),
            ])
            .env("HOME", folder)
            .env("HIGHBALL_RUBY_LIB", ruby_library())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of the package bsdutils");
        let screen = Arc::new(Screen::default());
        let (output, follower) = (
            script.stdout.take().expect("stdout is piped"),
            Arc::clone(&screen),
        );
        let keys = Arc::new(Mutex::new(script.stdin.take().expect("stdin is piped")));
        let answers = Arc::clone(&keys);
        thread::spawn(move || follower.follow(output, &answers));
        let listening = screen.wait(0, "listening on http://");
        let ready = screen.wait(listening, "ready: ");
        let pid = screen.wait(ready, ", pid ");
        let end = screen.wait(pid, "\n");
        let text = screen.text.lock().expect("no test failed with it").clone();
        let address = text[listening..].lines().next().expect("a line").trim();
        Self {
            address: address.parse().expect("an address"),
            pid: Process(text[pid..end].trim().parse().expect("a process id")),
            keys,
            script,
            screen,
        }
    }

    /// Where the terminal's text ends now.
    fn now(&self) -> usize {
        self.screen
            .text
            .lock()
            .expect("no test failed with it")
            .len()
    }

    /// Types at a debugger's prompt, and waits for a text that the terminal shows afterwards.
    #[track_caller]
    fn type_for(&self, keys: &str, wanted: &str) {
        self.wait_prompt();
        self.press_for(keys, wanted);
    }

    #[track_caller]
    fn press_for(&self, keys: &str, wanted: &str) {
        let from = self.now();
        self.press(keys);
        self.screen.wait(from, wanted);
    }

    /// Waits until another session of IRB has shown where it is, and its prompt.
    #[track_caller]
    fn wait_for_irb(&self, from: usize) {
        let place = self.screen.wait(from, "From: ");
        // IRB of Ruby 3.1 adds the depth: `:001:0> `.
        self.screen.wait(place, ":001");
    }

    /// Waits until a debugger reads at its prompt. While Reline asks where the cursor is, the terminal passes Ctrl-C on as
    /// a character.
    fn wait_prompt(&self) {
        until("the prompt waits", || {
            let modes = self.modes();
            modes.contains(LocalModes::ISIG) && !modes.contains(LocalModes::ICANON)
        });
    }

    /// Presses Ctrl-C at a debugger's prompt, and waits until it has shown that, and this prompt after it.
    #[track_caller]
    fn interrupt_for(&self, prompt: &str) {
        self.wait_prompt();
        let from = self.now();
        self.press(CTRL_C);
        let interrupted = self.screen.wait(from, "^C");
        self.screen.wait(interrupted, prompt);
    }

    fn press(&self, keys: &str) {
        let mut terminal = self.keys.lock().expect("no test failed with it");
        terminal
            .write_all(keys.as_bytes())
            .expect("the terminal is there");
    }

    /// Begins a request. Its answer is for [`Client::response`].
    fn ask(&self, method: &str, path: &str) -> Client {
        let mut client = Client::connect(self.address);
        client.ask(method, path);
        client
    }

    /// Presses Ctrl-C, and waits until the server has ended well.
    #[track_caller]
    fn end(mut self) {
        self.press(CTRL_C);
        self.wait_end();
    }

    #[track_caller]
    fn wait_end(&mut self) {
        let pid = self.pid;
        until("the server ends", || !pid.exists());
        let status = self.script.wait().expect("a child of ours");
        let text = self.screen.text.lock().expect("no test failed with it");
        assert!(status.success(), "{status}:\n{text}");
    }

    /// Whether the terminal gives whole lines and shows what is typed, as a shell leaves it.
    fn is_cooked(&self) -> bool {
        self.modes().contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    fn modes(&self) -> LocalModes {
        let terminal =
            std::fs::File::open(Path::new("/proc").join(self.pid.0.to_string()).join("fd/0"));
        let modes = tcgetattr(terminal.expect("the terminal is there")).expect("it is a terminal");
        modes.local_modes
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The server has ended unless the test failed; script ends with it.
        self.pid.kill();
        let _ = self.script.wait();
    }
}

/// An application that opens a debugger by `code` for each path that begins with /stop.
fn stops_with(requires: &str, code: &str) -> Application {
    Application::without_lint(&format!(
        r##"{requires}
        run lambda {{ |env|
          value = 20
          if env["PATH_INFO"].start_with?("/stop")
            {code}
            value += 1
          end
          Test.text("value #{{value}}")
        }}"##
    ))
}

#[test]
fn binding_irb_reads_from_the_terminal_and_its_request_is_answered() {
    let application = stops_with("", "binding.irb");
    let session = Session::start(&application, "");
    let mut client = session.ask("GET", "/stop");
    session.screen.wait(0, "irb(");
    session.type_for("1+1\n", "=> 2");
    // Other threads go on.
    assert_eq!(
        Client::connect(session.address).get("/other").text(),
        "value 20"
    );
    session.type_for("value = 41\n", "=> 41");
    session.press("exit\n");
    assert_eq!(client.response().text(), "value 42");
    assert!(session.is_cooked());
    session.end();
}

#[test]
fn ctrl_c_at_the_prompt_of_irb_is_for_irb() {
    for threads in ["1", "3"] {
        let application = stops_with("", "binding.irb");
        let session = Session::start(&application, &format!("--threads {threads}"));
        let mut client = session.ask("GET", "/stop");
        session.screen.wait(0, "irb(");
        session.type_for("1+1\n", "=> 2");
        session.interrupt_for(":002");
        session.type_for("3+4\n", "=> 7");
        // Also while it evaluates something.
        session.type_for("puts \"begins\".upcase; sleep\n", "BEGINS");
        session.press_for(CTRL_C, ":004");
        session.type_for("4+5\n", "=> 9");
        session.press("exit\n");
        assert_eq!(client.response().text(), "value 21");
        session.end();
    }
}

#[test]
fn a_second_debugger_waits_for_the_first() {
    let application = stops_with("", "binding.irb");
    let session = Session::start(&application, "--workers 2 --threads 2");
    let mut first = session.ask("GET", "/stop/first");
    session.screen.wait(0, "irb(");
    session.type_for("env[\"PATH_INFO\"].upcase\n", "/STOP/FIRST");
    // All other threads open one as well, of both workers.
    let mut others: Vec<Client> = (0..3).map(|_| session.ask("GET", "/stop/other")).collect();
    session.type_for("env[\"PATH_INFO\"].reverse\n", "tsrif/pots/");
    let from = session.now();
    session.press("exit\n");
    session.wait_for_irb(from);
    assert_eq!(first.response().text(), "value 21");
    for number in 0..3 {
        session.type_for("env[\"PATH_INFO\"].reverse\n", "rehto/pots/");
        let from = session.now();
        session.press("exit\n");
        if number < 2 {
            session.wait_for_irb(from);
        }
    }
    for client in &mut others {
        assert_eq!(client.response().text(), "value 21");
    }
    session.end();
}

#[test]
fn the_debugger_of_the_gem_debug_works() {
    // The second is what Rails' Gemfiles have: it loads the rest in the worker, at the first stop.
    let kinds = [
        ("1", "require \"debug\"", "binding.break"),
        ("3", "require \"debug\"", "debugger"),
        ("1", "require \"debug/prelude\"", "debugger"),
        ("3", "require \"debug/prelude\"", "binding.break"),
    ];
    for (threads, requires, code) in kinds {
        let application = stops_with(requires, code);
        let session = Session::start(&application, &format!("--threads {threads}"));
        let mut at = 0;
        for _ in 0..2 {
            let mut client = session.ask("GET", "/stop");
            // Newer versions call it (ruby).
            let prompt = session.screen.wait(at, "(r");
            session.screen.wait(prompt, ") ");
            session.type_for("p value + 1\n", "=> 21");
            session.interrupt_for("(r");
            session.type_for("p value + 2\n", "=> 22");
            at = session.now();
            session.press("continue\n");
            assert_eq!(client.response().text(), "value 21");
        }
        session.end();
    }
}

#[test]
fn byebug_works() {
    for threads in ["1", "3"] {
        let application = stops_with("require \"byebug\"", "byebug");
        let session = Session::start(&application, &format!("--threads {threads}"));
        let mut client = session.ask("GET", "/stop");
        session.screen.wait(0, "(byebug) ");
        session.type_for("value + 1\n", "21");
        match threads {
            "1" => {
                session.interrupt_for("(byebug) ");
                session.wait_prompt();
            }
            // Byebug stops all other threads, also the main one, which would handle the signal. libedit may then read whole
            // lines from the terminal.
            _ => {
                session.wait_prompt();
                session.press(CTRL_C);
            }
        }
        session.press_for("value + 2\n", "22");
        session.press("continue\n");
        assert_eq!(client.response().text(), "value 21");
        session.end();
    }
}

#[test]
fn pry_works() {
    let application = stops_with("require \"pry\"", "binding.pry");
    let session = Session::start(&application, "");
    let mut client = session.ask("GET", "/stop");
    session.screen.wait(0, "pry(");
    let before = session.now();
    session.type_for("value + 1\n", "=> 21");
    session.screen.wait(before, "[2] pry(");
    session.wait_prompt();
    session.press_for(CTRL_C, "[2] pry(");
    session.type_for("value + 2\n", "=> 22");
    session.press("exit\n");
    assert_eq!(client.response().text(), "value 21");
    session.end();
}

#[test]
fn a_worker_that_is_killed_at_a_prompt_leaves_a_usable_terminal() {
    let application = stops_with("", "binding.irb");
    let session = Session::start(&application, "");
    let mut client = session.ask("POST", "/stop");
    session.screen.wait(0, "irb(");
    let worker = session.pid.children()[0].children()[0];
    until("the prompt is there", || !session.is_cooked());
    worker.kill();
    assert_eq!(client.response().status(), 502);
    until("the terminal is as before", || session.is_cooked());
    assert_eq!(Client::connect(session.address).get("/").text(), "value 20");
    session.end();
}

#[test]
fn a_restart_leaves_the_worker_of_an_open_debugger_alone() {
    let application = stops_with("", "binding.irb");
    let session = Session::start(&application, "");
    let mut client = session.ask("GET", "/stop");
    session.screen.wait(0, "irb(");
    session.wait_prompt();
    for said in [
        "a debugger is open: old workers stay until it is closed",
        "a debugger is open: the next change waits until it is closed",
    ] {
        let from = session.now();
        session.pid.signal(Signal::USR1);
        session.screen.wait(from, said);
    }
    session.type_for("value = 41\n", "=> 41");
    let from = session.now();
    session.press("exit\n");
    assert_eq!(client.response().text(), "value 42");
    // The second change goes on.
    session.screen.wait(from, "the new generation serves");
    session.end();
}

#[test]
fn a_server_whose_workers_have_the_terminal_refuses_an_upgrade() {
    let application = stops_with("", "binding.irb");
    let session = Session::start(&application, "");
    session.pid.signal(Signal::USR2);
    session.screen.wait(
        0,
        "the upgrade failed, this server keeps serving: this server runs in a terminal",
    );
    assert_eq!(Client::connect(session.address).get("/").text(), "value 20");
    session.end();
}

#[test]
fn ctrl_c_says_what_it_waits_for_and_ends_it_soon() {
    let application = Application::new("run lambda { |_env| Test.tell(\"runs\"); sleep }");
    let mut events = application.events();
    let mut session = Session::start(&application, "");
    let mut client = session.ask("POST", "/");
    assert_eq!(events.wait(), "runs");
    session.press_for(
        CTRL_C,
        "waiting for 1 request, at most 500ms; press Ctrl-C again to stop at once",
    );
    session.wait_end();
    assert_eq!(client.response().status(), 502);
}

#[test]
fn a_second_ctrl_c_ends_the_server_at_once() {
    let application = Application::new("run lambda { |_env| Test.tell(\"runs\"); sleep }");
    let mut events = application.events();
    let mut session = Session::start(&application, "--drain-timeout 1h");
    let mut client = session.ask("POST", "/");
    assert_eq!(events.wait(), "runs");
    session.press_for(CTRL_C, "press Ctrl-C again to stop at once");
    session.press(CTRL_C);
    session.wait_end();
    assert_eq!(client.response().status(), 502);
}
