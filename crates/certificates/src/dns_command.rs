//! The operator's command that adds records to the domain name system and removes them, by which an authority checks names
//! (DNS-01, RFC 8555 section 8.4). It talks to no name server itself, and runs no shell.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::runtime::Handle;

use crate::failure::{Cause, Failure};
use crate::installer::{Installer, Severity};
use crate::text::one_line;

/// How long the command may take: name servers may need a minute to hear of a record.
const DNS_COMMAND_TIMEOUT: Duration = Duration::from_secs(180);
/// Bytes of each of its outputs that are read; then it gets an error when it writes.
const MAX_OUTPUT_BYTES: u64 = 16 * 1024;
/// What precedes the name in the name of its record.
const RECORD_PREFIX: &str = "_acme-challenge.";

/// The command.
pub(crate) struct DnsCommand {
    program: PathBuf,
    timeout: Duration,
    installer: Arc<dyn Installer>,
}

/// A TXT record.
#[derive(Clone, Debug)]
struct Record {
    name: String,
    value: String,
}

/// The records of one order. They are removed once this is dropped.
pub(crate) struct Records {
    command: Arc<DnsCommand>,
    added: Vec<Record>,
}

impl DnsCommand {
    pub(crate) fn new(program: PathBuf, installer: Arc<dyn Installer>) -> Self {
        Self {
            program,
            timeout: DNS_COMMAND_TIMEOUT,
            installer,
        }
    }

    /// Runs `PROGRAM add|remove NAME VALUE`, and logs what it says.
    async fn run(&self, action: &str, record: &Record) -> Result<(), String> {
        let Record { name, value } = record;
        let shown = format!("{} {action} {name} {value}", self.program.display());
        let ended = tokio::time::timeout(self.timeout, self.ended(action, record)).await;
        let (status, output) = match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => return Err(format!("{shown} cannot be run: {error}")),
            Err(_) => {
                let seconds = self.timeout.as_secs();
                return Err(format!(
                    "{shown} took longer than {seconds} s and was killed"
                ));
            }
        };
        let says = match output.trim() {
            "" => String::new(),
            output => format!(": {output}"),
        };
        if !status.success() {
            return Err(format!("{shown} failed with {status}{says}"));
        }
        let text = one_line(&format!("{shown}{says}"));
        self.installer.log(Severity::Info, &text);
        Ok(())
    }

    /// How the command ended, and what it wrote. It is killed when this is dropped.
    async fn ended(&self, action: &str, record: &Record) -> std::io::Result<(ExitStatus, String)> {
        let mut child = Command::new(&self.program)
            .args([action, &record.name, &record.value])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (status, stdout, stderr) = tokio::join!(child.wait(), read(stdout), read(stderr));
        let text = [stdout, stderr].concat();
        Ok((status?, String::from_utf8_lossy(&text).into_owned()))
    }
}

/// What comes from an output, up to the most that is read.
async fn read(output: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(output) = output {
        // What cannot be read is missing in the log, and nothing else.
        let _ = output.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).await;
    }
    bytes
}

impl Records {
    pub(crate) fn new(command: Arc<DnsCommand>) -> Self {
        Self {
            command,
            added: Vec::new(),
        }
    }

    /// Adds the record that proves a name, with or without its wildcard.
    ///
    /// # Errors
    /// The command failed: its own words.
    pub(crate) async fn add(&mut self, name: &str, value: String) -> Result<(), Failure> {
        let name = name.strip_prefix("*.").unwrap_or(name);
        let record = Record {
            name: format!("{RECORD_PREFIX}{name}"),
            value,
        };
        // Before it ran: it may have added the record and failed then.
        self.added.push(record.clone());
        let added = self.command.run("add", &record).await;
        added.map_err(|text| Failure::new(Cause::Refused, &text))
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // Without a runtime the server is at its end; then the records stay.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (command, added) = (Arc::clone(&self.command), std::mem::take(&mut self.added));
        runtime.spawn(async move {
            for record in added {
                if let Err(text) = command.run("remove", &record).await {
                    command.installer.log(Severity::Warning, &one_line(&text));
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    use rustls::sign::CertifiedKey;

    use super::*;
    use crate::installer::ChallengeKind;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Installer for Lines {
        fn challenges(&self) -> Vec<ChallengeKind> {
            Vec::new()
        }
        fn install(&self, _: &[String], _: Arc<CertifiedKey>) {}
        fn answer_http01(&self, _: &str, _: &str) {}
        fn remove_http01(&self, _: &str) {}
        fn answer_alpn01(&self, _: &str, _: Arc<CertifiedKey>) {}
        fn remove_alpn01(&self, _: &str) {}
        fn log(&self, _: Severity, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    /// What becomes of adding a record by this script, and what is logged.
    fn add(script: &str, timeout: Duration) -> (Result<(), String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("dns");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let lines = Arc::<Lines>::default();
        let command = DnsCommand {
            timeout,
            ..DnsCommand::new(program, Arc::clone(&lines) as Arc<dyn Installer>)
        };
        let record = Record {
            name: "_acme-challenge.a".to_owned(),
            value: "v; id".to_owned(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let added = runtime.block_on(command.run("add", &record));
        let lines = lines.0.lock().unwrap().clone();
        (added, lines)
    }

    #[test]
    fn a_command_gets_its_arguments_as_they_are_and_is_logged_in_one_line() {
        let (added, lines) = add(
            "printf '%s|' \"$@\"; printf '\\nb\\033[1m' >&2",
            DNS_COMMAND_TIMEOUT,
        );
        assert_eq!(added, Ok(()));
        let [line] = &lines[..] else {
            panic!("{lines:?}")
        };
        let says = "add _acme-challenge.a v; id: add|_acme-challenge.a|v; id| b\\u{1b}[1m";
        assert!(line.ends_with(says), "{line}");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let (added, lines) = add("exec sleep 1000", Duration::from_millis(100));
        let text = added.unwrap_err();
        assert!(text.contains("took longer than"), "{text}");
        assert!(lines.is_empty());
    }

    #[test]
    fn what_a_command_writes_is_read_up_to_its_bound() {
        let (added, _) = add("yes no such zone", DNS_COMMAND_TIMEOUT);
        let text = added.unwrap_err();
        assert!(text.contains("failed with"), "{text}");
        assert!(text.contains("no such zone") && text.len() < 64 * 1024);
    }
}
