//! Debian's Prometheus, which scrapes a server of a test and answers questions about it. Its storage is the test's own.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use test_support::{Client, Directory, Log, until};

/// How often it scrapes.
const CONFIGURATION: &str = "\
global:
  scrape_interval: 250ms
  scrape_timeout: 250ms
scrape_configs:
  - job_name: highball
    static_configs: [{ targets: [\"TARGET\"] }]
";

/// A Prometheus that scrapes one address, until it is dropped.
#[derive(Debug)]
pub struct Prometheus {
    process: Child,
    address: SocketAddr,
    _folder: Directory,
}

impl Prometheus {
    /// Starts one that scrapes this address.
    ///
    /// # Panics
    /// When the program is missing, or does not listen in time.
    pub fn start(target: &str) -> Self {
        let folder = Directory::new();
        let configuration = CONFIGURATION.replace("TARGET", target);
        let file = folder.write("prometheus.yml", configuration);
        let mut process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg("--web.listen-address=127.0.0.1:0")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("prometheus: scripts/install test");
        let log = Log::default();
        log.follow(process.stderr.take().expect("a pipe"));
        let line = log.wait(|line| line.contains("msg=\"Listening on\""));
        let (_, address) = line.split_once("address=").expect("an address");
        let address = address.trim().parse().expect("an address");
        // It listens before it answers questions.
        until("Prometheus is ready", || {
            Client::connect(address).get("/-/ready").status() == 200
        });
        Self {
            address,
            process,
            _folder: folder,
        }
    }

    /// The answer to a question now: labels and value of each series.
    ///
    /// # Panics
    /// When it is no question that it can answer.
    #[track_caller]
    pub fn ask(&self, question: &str) -> Vec<(Value, f64)> {
        let data = self.get(&format!("/api/v1/query?query={}", encoded(question)));
        let series = data["result"].as_array().expect("series").iter();
        let series = series.map(|one| {
            let value = one["value"][1].as_str().expect("a value");
            (one["metric"].clone(), value.parse().expect("a number"))
        });
        series.collect()
    }

    /// All samples of a metric, with their times.
    ///
    /// # Panics
    /// When it is no name of a metric.
    #[track_caller]
    pub fn samples(&self, name: &str) -> Value {
        let question = encoded(&format!("{name}[1h]"));
        self.get(&format!("/api/v1/query?query={question}"))["result"].take()
    }

    /// The names of all metrics that it has seen.
    ///
    /// # Panics
    /// When it does not say.
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        let data = self.get("/api/v1/label/__name__/values");
        serde_json::from_value(data).expect("names")
    }

    #[track_caller]
    fn get(&self, target: &str) -> Value {
        let response = Client::connect(self.address).get(target);
        let answer: Value = serde_json::from_str(&response.text()).expect("JSON");
        assert_eq!(answer["status"], "success", "{target}: {answer}");
        answer["data"].clone()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Nothing that it has stored is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Has `promtool` check the text of metrics.
///
/// # Panics
/// When it finds something, or is missing.
#[track_caller]
pub fn promtool(text: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool: scripts/install test");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.is_empty(), "{said}\n{text}");
}

/// A question as a part of a URI.
fn encoded(question: &str) -> String {
    let bytes = question.bytes();
    bytes.map(|byte| format!("%{byte:02X}")).collect()
}
