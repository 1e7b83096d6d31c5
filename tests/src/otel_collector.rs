//! A real OpenTelemetry Collector (`scripts/otel-collector`), and the spans that it wrote. It checks none of them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::Signal;
use test_support::{Process, workspace};

/// Receives OTLP over HTTP at a free port, and writes all that comes.
const CONFIGURATION: &str = "yaml:
receivers: {otlp: {protocols: {http: {endpoint: '127.0.0.1:0'}}}}
exporters: {debug: {verbosity: detailed}}
service:
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
  telemetry: {metrics: {level: none}}
";

/// A running Collector; killed when dropped.
#[derive(Debug)]
pub struct OtelCollector {
    child: Child,
    output: BufReader<ChildStderr>,
    address: String,
}

/// A span as the Collector wrote it.
#[derive(Debug)]
pub struct WrittenSpan(String);

impl OtelCollector {
    /// Starts it, and waits until it listens.
    ///
    /// # Panics
    /// It was not built, or does not start.
    pub fn start() -> Self {
        let mut child = Command::new(workspace().join("target/otel-collector"))
            .args(["--config", CONFIGURATION])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a Collector: scripts/otel-collector");
        let mut output = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let (mut said, mut address) = (String::new(), None);
        while !said.contains("Everything is ready") {
            let mut line = String::new();
            let length = output.read_line(&mut line).expect("text");
            assert!(length > 0, "it has ended: {said}");
            let (_, endpoint) = line.split_once("\"endpoint\": \"").unzip();
            let endpoint = endpoint.and_then(|rest| rest.split('"').next());
            address = endpoint.map(str::to_owned).or(address);
            said.push_str(&line);
        }
        Self {
            child,
            output,
            address: address.unwrap_or_else(|| panic!("no address: {said}")),
        }
    }

    /// Where it receives.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it, and returns the spans that it has got.
    ///
    /// # Panics
    /// It wrote no text.
    pub fn stop(mut self) -> Vec<WrittenSpan> {
        Process(self.child.id()).signal(Signal::TERM);
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        let spans = text.split("\nSpan #").skip(1);
        spans.map(|span| WrittenSpan(span.to_owned())).collect()
    }
}

impl Drop for OtelCollector {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl WrittenSpan {
    /// A field of the span, such as `Name`; empty without one.
    pub fn field(&self, name: &str) -> &str {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(before, _)| before.trim() == name);
        found.map_or("", |(_, value)| value.trim())
    }

    /// An attribute with its type, such as `Str(GET)`; empty without one.
    pub fn attribute(&self, name: &str) -> &str {
        self.field(&format!("-> {name}"))
    }
}
