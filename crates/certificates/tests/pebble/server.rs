//! The server that certificates are for, as far as ACME needs one: answers to challenges, certificates by name, and a list
//! of what happened. Its clock is moved by the test.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use highball_certificates::{ChallengeKind, Clock, Installer, Severity, Wait};
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, Stream};
use test_support::TEST_TIMEOUT;
use tokio::sync::watch;

use crate::authority::listen;

/// Something that the manager did.
#[derive(Debug)]
pub(crate) enum Event {
    /// It gave a certificate for these names.
    Installed(Vec<String>),
    /// It logged a warning.
    Warned(String),
    /// It waits until this time of the test's clock, or until an earlier one for other names.
    Waits(SystemTime),
}

/// What the threads that answer share.
#[derive(Debug)]
struct Shown {
    tokens: Mutex<HashMap<String, String>>,
    alpn: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    installed: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

/// The server.
#[derive(Debug)]
pub(crate) struct TestServer {
    pub(crate) http: SocketAddr,
    pub(crate) tls: SocketAddr,
    kinds: Vec<ChallengeKind>,
    /// Whether it shows the answers to challenges.
    answers: bool,
    shown: Arc<Shown>,
    events: Mutex<Sender<Event>>,
    received: Mutex<Receiver<Event>>,
    pub(crate) clock: Arc<TestClock>,
}

impl TestServer {
    pub(crate) fn start(kinds: &[ChallengeKind]) -> Arc<Self> {
        Self::with_answers(kinds, true)
    }

    /// A server that never shows an answer.
    pub(crate) fn mute(kinds: &[ChallengeKind]) -> Arc<Self> {
        Self::with_answers(kinds, false)
    }

    fn with_answers(kinds: &[ChallengeKind], answers: bool) -> Arc<Self> {
        let shown = Arc::new(Shown {
            tokens: Mutex::default(),
            alpn: Mutex::default(),
            installed: Mutex::default(),
        });
        let (events, received) = channel();
        let clock = Arc::new(TestClock {
            time: watch::channel(SystemTime::now()).0,
            events: Mutex::new(events.clone()),
        });
        Arc::new(Self {
            http: serve_http(Arc::clone(&shown)),
            tls: serve_tls(Arc::clone(&shown)),
            kinds: kinds.to_vec(),
            answers,
            shown,
            events: Mutex::new(events),
            received: Mutex::new(received),
            clock,
        })
    }

    /// The next event that `wanted` makes something of.
    #[track_caller]
    pub(crate) fn event<T>(&self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let mut seen = Vec::new();
        loop {
            let Ok(event) = self
                .received
                .lock()
                .expect("no thread panics with it")
                .recv_timeout(TEST_TIMEOUT)
            else {
                panic!("the event did not come; others were {seen:#?}");
            };
            if let Some(found) = wanted(&event) {
                return found;
            }
            seen.push(event);
        }
    }

    /// Waits until a certificate is installed.
    #[track_caller]
    pub(crate) fn installed(&self) -> Vec<String> {
        self.event(|event| match event {
            Event::Installed(names) => Some(names.clone()),
            _ => None,
        })
    }

    /// Waits for a warning, and returns it.
    #[track_caller]
    pub(crate) fn warned(&self) -> String {
        self.event(|event| match event {
            Event::Warned(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// Waits until nothing is left to do now. Returns the time that is waited for.
    #[track_caller]
    pub(crate) fn idle(&self) -> SystemTime {
        let now = self.clock.now();
        self.event(|event| match event {
            Event::Waits(until) if *until > now => Some(*until),
            _ => None,
        })
    }

    /// The names on the certificate that a client gets who asks for this one.
    pub(crate) fn serves(&self, name: &str) -> bool {
        self.shown
            .installed
            .lock()
            .expect("no thread panics with it")
            .contains_key(name)
    }

    /// Whether answers to challenges are still shown.
    pub(crate) fn shows_answers(&self) -> bool {
        !self
            .shown
            .tokens
            .lock()
            .expect("no thread panics with it")
            .is_empty()
            || !self
                .shown
                .alpn
                .lock()
                .expect("no thread panics with it")
                .is_empty()
    }

    fn send(&self, event: Event) {
        let _ = self
            .events
            .lock()
            .expect("no thread panics with it")
            .send(event);
    }
}

impl Installer for TestServer {
    fn challenges(&self) -> Vec<ChallengeKind> {
        self.kinds.clone()
    }

    fn install(&self, names: &[String], certificate: Arc<CertifiedKey>) {
        let mut installed = self
            .shown
            .installed
            .lock()
            .expect("no thread panics with it");
        for name in names {
            installed.insert(name.clone(), Arc::clone(&certificate));
        }
        self.send(Event::Installed(names.to_vec()));
    }

    fn answer_http01(&self, token: &str, key_authorization: &str) {
        if self.answers {
            let mut tokens = self.shown.tokens.lock().expect("no thread panics with it");
            tokens.insert(token.to_owned(), key_authorization.to_owned());
        }
    }

    fn remove_http01(&self, token: &str) {
        self.shown
            .tokens
            .lock()
            .expect("no thread panics with it")
            .remove(token);
    }

    fn answer_alpn01(&self, name: &str, certificate: Arc<CertifiedKey>) {
        if self.answers {
            self.shown
                .alpn
                .lock()
                .expect("it is possible")
                .insert(name.to_owned(), certificate);
        }
    }

    fn remove_alpn01(&self, name: &str) {
        self.shown
            .alpn
            .lock()
            .expect("no thread panics with it")
            .remove(name);
    }

    fn log(&self, severity: Severity, text: &str) {
        assert!(!text.contains(char::is_control), "{text:?}");
        eprintln!("log: {text}");
        if severity == Severity::Warning {
            self.send(Event::Warned(text.to_owned()));
        }
    }
}

fn serve_http(shown: Arc<Shown>) -> SocketAddr {
    listen(move |mut client| {
        let mut line = String::new();
        let _ = BufReader::new(&client).read_line(&mut line);
        let token = line
            .split(' ')
            .nth(1)
            .and_then(|path| path.rsplit('/').next());
        let text = shown
            .tokens
            .lock()
            .expect("it is possible")
            .get(token.unwrap_or(""))
            .cloned();
        let (status, text) = match text {
            Some(text) => ("200 OK", text),
            None => ("404 Not Found", "\u{1b}[31mnothing here\n".to_owned()),
        };
        let length = text.len();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        let _ = client.write_all((head + &text).as_bytes());
    })
}

fn serve_tls(shown: Arc<Shown>) -> SocketAddr {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("it is possible")
        .with_no_client_auth()
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let config = Arc::new(config);
    listen(move |mut client| {
        let mut connection = ServerConnection::new(Arc::clone(&config)).expect("it is possible");
        let _ = Stream::new(&mut connection, &mut client).read(&mut [0; 1]);
    })
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?;
        let for_challenge = hello
            .alpn()
            .is_some_and(|mut all| all.any(|one| one == b"acme-tls/1"));
        let shown = if for_challenge {
            &self.alpn
        } else {
            &self.installed
        };
        shown
            .lock()
            .expect("no thread panics with it")
            .get(name)
            .cloned()
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub(crate) struct TestClock {
    time: watch::Sender<SystemTime>,
    events: Mutex<Sender<Event>>,
}

impl TestClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.time.send_modify(|time| *time += by);
    }

    /// Moves it to `time`.
    pub(crate) fn set(&self, time: SystemTime) {
        self.time.send_replace(time);
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        *self.time.borrow()
    }

    fn wait_until(&self, time: SystemTime) -> Wait {
        let _ = self
            .events
            .lock()
            .expect("no thread panics with it")
            .send(Event::Waits(time));
        let mut moved = self.time.subscribe();
        Box::pin(async move {
            let _ = moved.wait_for(|now| *now >= time).await;
        })
    }
}
