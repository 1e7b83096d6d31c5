//! Loads over TLS.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::thread;

use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

use super::server::converse;
use super::*;
use crate::plan::{Tls, Trust};

/// The server's side of a connection, for a single thread.
struct Secured(Mutex<StreamOwned<ServerConnection, std::net::TcpStream>>);

impl Read for &Secured {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().read(buffer)
    }
}

impl Write for &Secured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().unwrap().flush()
    }
}

/// A server of HTTP/1.1 with TLS.
struct Server {
    address: SocketAddr,
    /// Handshakes that resumed no session, and those that did.
    handshakes: Arc<[AtomicUsize; 2]>,
    certificate: String,
}

fn serve_tls(answer: impl Fn(&server::Request) -> Answer + Send + Sync + 'static) -> Server {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handshakes = Arc::<[AtomicUsize; 2]>::default();
    let (answer, counts) = (Arc::new(answer), Arc::clone(&handshakes));
    thread::spawn(move || {
        for (connection, mut stream) in listener.incoming().flatten().enumerate() {
            let (answer, config) = (Arc::clone(&answer), Arc::clone(&config));
            let counts = Arc::clone(&counts);
            thread::spawn(move || {
                let mut tls = ServerConnection::new(config).unwrap();
                while tls.is_handshaking() {
                    if tls.complete_io(&mut stream).is_err() {
                        return;
                    }
                }
                let resumed = tls.handshake_kind() == Some(HandshakeKind::Resumed);
                counts[usize::from(resumed)].fetch_add(1, Ordering::Relaxed);
                let stream = Secured(Mutex::new(StreamOwned::new(tls, stream)));
                converse(&stream, connection, &*answer, |_| {});
            });
        }
    });
    Server {
        address,
        handshakes,
        certificate: made.cert.pem(),
    }
}

impl Server {
    fn plan(&self, mode: Mode, trust: Trust) -> Plan {
        let tls = Tls {
            name: "localhost".to_owned(),
            trust,
            resumption: true,
        };
        Plan {
            target: Target::Tls(self.address, tls),
            ..plan(self.address, mode)
        }
    }

    fn handshakes(&self) -> [usize; 2] {
        [0, 1].map(|kind| self.handshakes[kind].load(Ordering::Relaxed))
    }
}

#[test]
fn a_load_over_tls_counts_as_one_without() {
    let server = serve_tls(|_| page("hello"));
    let outcome = load(&server.plan(closed(4, 500), Trust::Any));
    assert_eq!((outcome.completed, outcome.good), (500, 500));
    assert_eq!(outcome.errors.total(), 0);
    assert_eq!(outcome.connections, 4);
    assert_eq!(outcome.sample.server, "small");
    assert_eq!(outcome.bytes.bodies, 2500);
    assert_eq!(outcome.bytes.received, outcome.bytes.heads + 2500);
    assert_eq!(server.handshakes(), [4, 0]);
}

#[test]
fn long_requests_and_responses_go_whole_through_tls() {
    let server = serve_tls(|request| {
        assert_eq!(request.body, vec![b'y'; 700_000]);
        page(&"x".repeat(2_000_000))
    });
    let mut plan = server.plan(closed(2, 6), Trust::Any);
    plan.requests = vec![Request {
        body: vec![b'y'; 700_000],
        ..request("POST", "/")
    }];
    let outcome = load(&plan);
    assert_eq!(outcome.good, 6, "{:?}", outcome.errors);
    assert_eq!(outcome.bytes.bodies, 12_000_000);
}

#[test]
fn sessions_are_resumed_unless_each_handshake_is_to_be_full() {
    let server = serve_tls(|_| page("hello"));
    let mut plan = server.plan(closed(1, 20), Trust::Any);
    plan.connections = ConnectionUse::PerRequest;
    assert_eq!(load(&plan).good, 20);
    assert_eq!(server.handshakes(), [1, 19]);
    if let Target::Tls(_, tls) = &mut plan.target {
        tls.resumption = false;
    }
    assert_eq!(load(&plan).good, 20);
    assert_eq!(server.handshakes(), [21, 19]);
}

#[test]
fn only_certificates_of_trusted_authorities_are_accepted() {
    let server = serve_tls(|_| page("hello"));
    let outcome = load(&server.plan(closed(1, 2), Trust::System));
    assert_eq!((outcome.good, outcome.errors.invalid), (0, 2));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorities.pem");
    let error = refused(&server.plan(closed(1, 2), Trust::File(file.clone())));
    assert!(error.contains("authorities.pem"), "{error}");
    std::fs::write(&file, "nothing\n").unwrap();
    let error = refused(&server.plan(closed(1, 2), Trust::File(file.clone())));
    assert!(error.contains("holds no certificate"), "{error}");
    std::fs::write(&file, &server.certificate).unwrap();
    let outcome = load(&server.plan(closed(1, 2), Trust::File(file)));
    assert_eq!(outcome.good, 2, "{:?}", outcome.errors);
}

fn refused(plan: &Plan) -> String {
    let error = run(plan, &mut |_| {}, &AtomicBool::new(false)).unwrap_err();
    format!("{error:#}")
}

#[test]
fn a_response_that_breaks_off_is_short_over_tls_too() {
    let short = bytes("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    let server = serve_tls(move |_| Answer::Last(short.clone()));
    let errors = load(&server.plan(closed(1, 3), Trust::Any)).errors;
    assert_eq!((errors.short_body, errors.total()), (3, 3));
}

#[test]
fn a_server_without_tls_fails_each_handshake() {
    let address = serve(|_| page("hello"));
    let server = Server {
        address,
        handshakes: Arc::default(),
        certificate: String::new(),
    };
    let mut plan = server.plan(open(50.0, 100), Trust::Any);
    plan.timeout = Duration::from_millis(200);
    let outcome = load(&plan);
    assert_eq!((outcome.good, outcome.completed), (0, 0));
    assert!(outcome.errors.total() > 0);
}

#[test]
fn a_server_that_speaks_no_http_2_is_named_at_once() {
    let server = serve_tls(|_| page("hello"));
    let plan = server.plan(closed(1, 1), Trust::Any);
    let reach = |http2| crate::page::reach(&plan.target, http2, Duration::from_secs(20));
    assert!(reach(false).is_ok());
    let error = format!("{:#}", reach(true).unwrap_err());
    assert!(error.contains("does not offer HTTP/2"), "{error}");
    // Where the load begins all the same, none of its requests is answered.
    let plan = Plan {
        streams: Some(1),
        ..plan
    };
    let outcome = load(&plan);
    assert_eq!((outcome.good, outcome.errors.invalid), (0, 1));
}

#[test]
fn a_page_is_asked_for_over_tls() {
    let server = serve_tls(|_| page("hello"));
    let plan = server.plan(closed(1, 1), Trust::Any);
    let response = crate::page::get(&plan.target, "/", Duration::from_secs(20)).unwrap();
    assert_eq!((response.status, response.body), (200, b"hello".to_vec()));
    let idle = crate::idle::IdleConnections::open(&plan.target, "/", 3).unwrap();
    assert_eq!(idle.still_open(), 3);
    assert_eq!(server.handshakes(), [4, 0]);
}
