//! A certificate authority of its own for each test: Pebble, and the name server that it asks. Every name leads to
//! 127.0.0.1.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use test_support::{Directory, until, workspace};

/// A running Pebble.
pub(crate) struct Authority {
    folder: Directory,
    address: SocketAddr,
    management: SocketAddr,
    process: Child,
}

/// What differs from one Pebble to another.
pub(crate) struct Options {
    /// Where it finds the server on "port 80".
    pub(crate) http: SocketAddr,
    /// Where it finds the server on "port 443".
    pub(crate) tls: SocketAddr,
    /// Per cent of good nonces that it refuses.
    pub(crate) refused_nonces: u32,
    /// Whether an account needs an external one.
    pub(crate) external_accounts: bool,
}

impl Authority {
    pub(crate) fn start(options: &Options) -> Self {
        let folder = Directory::new();
        let address = free_address();
        let management = free_address();
        write_certificate(folder.path());
        fs::create_dir(folder.path().join("txt")).expect("it is possible");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let pebble = json!({
            "listenAddress": address.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": path("certificate.pem"),
            "privateKey": path("key.pem"),
            "httpPort": options.http.port(),
            "tlsPort": options.tls.port(),
            "externalAccountBindingRequired": options.external_accounts,
            "externalAccountMACKeys": {"kid-1": EXTERNAL_KEY},
            "domainBlocklist": ["blocked.example"],
            "keyAlgorithm": "ecdsa",
            "profiles": {
                "default": {"description": "90 days", "validityPeriod": 7_776_000},
                "shortlived": {"description": "6 days", "validityPeriod": 518_400},
            },
        });
        let config = path("pebble.json");
        fs::write(&config, json!({"pebble": pebble}).to_string()).expect("it is possible");
        let log = File::create(folder.path().join("log")).expect("it is possible");
        let process = Command::new(program())
            .args([
                "-config",
                &config,
                "-dnsserver",
                &name_server(folder.path().join("txt")).to_string(),
            ])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_AUTHZREUSE", "0")
            .env("PEBBLE_WFE_NONCEREJECT", options.refused_nonces.to_string())
            .stdout(log.try_clone().expect("it is possible"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("Pebble starts; scripts/pebble installs it");
        until("Pebble listens", || {
            TcpStream::connect(address).is_ok() && TcpStream::connect(management).is_ok()
        });
        Self {
            folder,
            address,
            management,
            process,
        }
    }

    pub(crate) fn directory(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    /// The file with the certificate that it serves HTTPS with.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// The folder of the TXT records that its name server has: a file for each name, with a value in each line.
    pub(crate) fn records(&self) -> PathBuf {
        self.folder.path().join("txt")
    }

    /// Ends it; its files stay.
    pub(crate) fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("it is possible")
    }

    /// A file with the root of the certificates that it issues.
    pub(crate) fn root_file(&self) -> PathBuf {
        let file = self.folder.path().join("root.pem");
        let address = format!("https://{}/roots/0", self.management);
        let fetched = Command::new("curl")
            .args([
                "--silent",
                "--fail",
                "--insecure",
                "--noproxy",
                "*",
                "--output",
            ])
            .args([file.as_os_str(), address.as_ref()])
            .status()
            .expect("curl starts");
        assert!(fetched.success());
        file
    }

    /// The lines of its log with this text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.log()
            .lines()
            .filter(|line| line.contains(text))
            .count()
    }

    /// The orders that it has taken.
    pub(crate) fn orders(&self) -> usize {
        self.count("Added order")
    }

    /// Has it suggest this window for the renewal of a certificate. Times as in RFC 3339.
    pub(crate) fn suggest(&self, certificate_pem: &str, start: &str, end: &str) {
        let window = json!({"suggestedWindow": {"start": start, "end": end}});
        let body = json!({"Certificate": certificate_pem, "ARIResponse": window.to_string()});
        let file = self.folder.path().join("ari.json");
        fs::write(&file, body.to_string()).expect("it is possible");
        let address = format!("https://{}/set-renewal-info/", self.management);
        let data = format!("@{}", file.display());
        let curl = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--fail",
                "--insecure",
                "--noproxy",
                "*",
            ])
            .args(["--data-binary", &data, &address])
            .output()
            .expect("curl starts");
        assert!(
            curl.status.success(),
            "{}",
            String::from_utf8_lossy(&curl.stderr)
        );
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.stop();
        if thread::panicking() {
            eprintln!("Pebble's log:\n{}", self.log());
        }
    }
}

/// The key of the external account `kid-1`.
pub(crate) const EXTERNAL_KEY: &str =
    "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

fn program() -> PathBuf {
    workspace().join("target/tools/pebble")
}

/// An address that nobody listens on.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it is possible");
    listener.local_addr().expect("it is possible")
}

fn write_certificate(folder: &Path) {
    let key = KeyPair::generate().expect("it is possible");
    let parameters = CertificateParams::new(["127.0.0.1".to_owned()]).expect("it is possible");
    let certificate = parameters.self_signed(&key).expect("it is possible");
    fs::write(folder.join("certificate.pem"), certificate.pem()).expect("it is possible");
    fs::write(folder.join("key.pem"), key.serialize_pem()).expect("it is possible");
}

/// A name server that answers every question for an IPv4 address with 127.0.0.1, those for TXT records with the lines of a file
/// in this folder, and others with nothing, for as long as this process lives. Pebble asks over TCP (RFC 1035 section 4.2.2).
fn name_server(records: PathBuf) -> SocketAddr {
    listen(move |client| {
        let mut length = [0; 2];
        while (&client).read_exact(&mut length).is_ok() {
            let mut question = vec![0; u16::from_be_bytes(length).into()];
            if (&client).read_exact(&mut question).is_err() {
                return;
            }
            let answer = answer(&question, &records);
            let length = u16::try_from(answer.len()).expect("a short answer");
            let _ = (&client).write_all(&[&length.to_be_bytes(), &answer[..]].concat());
        }
    })
}

/// The answer to one question (RFC 1035 section 4).
fn answer(question: &[u8], records: &Path) -> Vec<u8> {
    let mut labels = Vec::new();
    let mut at = 12;
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8_lossy(&question[at + 1..end]).to_lowercase());
        at = end;
    }
    let kind = &question[at + 1..at + 3];
    let texts = fs::read_to_string(records.join(labels.join("."))).unwrap_or_default();
    let data: Vec<Vec<u8>> = match kind {
        [0, 1] => vec![vec![127, 0, 0, 1]],
        [0, 16] => texts
            .lines()
            .map(|text| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat())
            .collect(),
        _ => Vec::new(),
    };
    let count = u8::try_from(data.len()).expect("a few");
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0]);
    answer.extend(&question[12..at + 5]);
    for data in data {
        answer.extend([0xc0, 12, 0, kind[1], 0, 1, 0, 0, 0, 60, 0]);
        answer.push(u8::try_from(data.len()).expect("short"));
        answer.extend(data);
    }
    answer
}

/// An address where somebody accepts connections, counts them, and says nothing.
pub(crate) struct DeadAuthority {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl DeadAuthority {
    pub(crate) fn start() -> Self {
        let connections = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&connections);
        let address = listen(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        Self {
            address,
            connections,
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// An address that decides about names: yes to `allowed`, no to others.
pub(crate) fn decider(allowed: &'static str) -> String {
    let address = listen(move |mut client| {
        let mut line = String::new();
        let _ = BufReader::new(&client).read_line(&mut line);
        let status = match line.contains(&format!("?domain={allowed} ")) {
            true => "200 OK",
            false => "403 Forbidden",
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let _ = client.write_all(answer.as_bytes());
    });
    format!("http://{address}/ask")
}

/// Has each connection to a new address answered on a thread of its own, for as long as this process lives.
pub(crate) fn listen(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let answer = Arc::new(answer);
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || answer(client));
        }
    });
    address
}

/// What curl's `--data` and Pebble need of a certificate: its PEM alone.
pub(crate) fn first_certificate(pem: &str) -> String {
    let begin = pem.find("-----BEGIN CERTIFICATE").expect("a certificate");
    let mark = "-----END CERTIFICATE-----\n";
    let end = begin + pem[begin..].find(mark).expect("its end") + mark.len();
    pem[begin..end].to_owned()
}
