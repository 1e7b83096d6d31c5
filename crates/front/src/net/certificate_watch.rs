//! Certificates of the settings' files: read at the start, and again when a file or the settings change. It orders none.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use config::Settings;

use crate::edge::Edge;
use crate::log::{Level, Value};
use crate::net::certificate_status::CertificateStatus;
use crate::net::tls::files::{CertificateFiles, FileError};
use crate::net::tls::{Tls, TlsError, Wanted};
use crate::serve::file_threads::FileThreads;

/// How often the files are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// TLS that cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum TlsStartError {
    /// Files of certificates cannot be used.
    #[error("{}", .0.iter().map(FileError::to_string).collect::<Vec<_>>().join("; "))]
    Files(Vec<FileError>),
    /// There is no certificate.
    #[error(
        "a listener speaks TLS, and there is no certificate for it: set tls_hosts or tls_certificate_files, or listen with tcp:// in front of the address"
    )]
    NoCertificate,
    /// Other settings cannot be used.
    #[error(transparent)]
    Settings(#[from] TlsError),
    /// The system gives no thread.
    #[error("cannot start the thread that reads certificates: {0}")]
    Thread(io::Error),
}

/// Reads the certificates of the settings, and has the edge look at them every second from then on; `dir` is the
/// application's folder. Before the server serves, for it waits for a disk.
///
/// # Errors
/// A certificate or a setting cannot be used.
pub(crate) fn begin(edge: &Rc<Edge>, dir: PathBuf) -> Result<(), TlsStartError> {
    let settings = edge.settings.get();
    let mut files = CertificateFiles::default();
    read(&mut files, &settings, &dir, &edge.tls)?;
    for (entry, details) in edge.tls.certificates.described() {
        if let Some(warning) = details.warning(jiff::Timestamp::now().as_second()) {
            let names = entry.names.join(", ");
            let fields = [
                ("names", Value::Text(&names)),
                ("reason", Value::Text(&warning)),
            ];
            edge.log
                .event(Level::Warn, "a certificate needs to be replaced", &fields);
        }
    }
    let threads = FileThreads::new("certificates", 1).map_err(TlsStartError::Thread)?;
    tokio::task::spawn_local(watch(Rc::clone(edge), files, threads, settings, dir));
    Ok(())
}

/// Reads the certificates that these settings name, and puts them in force.
fn read(
    files: &mut CertificateFiles,
    settings: &Settings,
    dir: &Path,
    tls: &Tls,
) -> Result<(), TlsStartError> {
    let look = files.look(&settings.tls_certificate_files, dir);
    if !look.problems.is_empty() {
        return Err(TlsStartError::Files(look.problems));
    }
    tls.certificates.set_files(look.changed.unwrap_or_default());
    // Those of tls_hosts and on demand are ordered while the server serves.
    let ordered = !settings.tls_hosts.is_empty() || settings.acme_ask_url.is_some();
    if tls.certificates.is_empty() && !ordered {
        return Err(TlsStartError::NoCertificate);
    }
    Ok(tls.apply(Wanted::read(settings, dir)?)?)
}

/// Returns the certificates that a server with these settings begins with; `dir` is the application's folder.
///
/// # Errors
/// It could not begin: a certificate or a setting cannot be used.
pub fn check_tls(settings: &Settings, dir: &Path) -> Result<Vec<CertificateStatus>, TlsStartError> {
    let tls = Tls::new();
    read(&mut CertificateFiles::default(), settings, dir, &tls)?;
    Ok(CertificateStatus::of(&tls.certificates))
}

/// Looks at the files again and again.
async fn watch(
    edge: Rc<Edge>,
    mut files: CertificateFiles,
    threads: FileThreads,
    mut known: Rc<Settings>,
    dir: PathBuf,
) {
    loop {
        let _ = tokio::time::timeout(CHECK_INTERVAL, edge.tls.reload.notified()).await;
        let settings = edge.settings.get();
        let applies = !Rc::ptr_eq(&settings, &known);
        known = Rc::clone(&settings);
        let (items, dir) = (settings.tls_certificate_files.clone(), dir.clone());
        let wanted = applies.then(|| Settings::clone(&settings));
        let work = threads.run(move || {
            let look = files.look(&items, &dir);
            let wanted = wanted.map(|settings| Wanted::read(&settings, &dir));
            (files, look, wanted)
        });
        let Ok((kept, look, wanted)) = work.await else {
            // It panicked: nothing more can be said of the files.
            return;
        };
        files = kept;
        for problem in &look.problems {
            let text =
                "cannot use a changed certificate; the earlier one stays in use, if there is one";
            let fields = [("reason", Value::Text(problem))];
            edge.log.event(Level::Warn, text, &fields);
        }
        if let Some(entries) = look.changed {
            let fields = [("certificates", Value::Number(entries.len() as u64))];
            edge.tls.certificates.set_files(entries);
            edge.log
                .event(Level::Info, "read certificates again", &fields);
        }
        let applied = wanted.map(|wanted| wanted.and_then(|wanted| edge.tls.apply(wanted)));
        if let Some(Err(error)) = applied {
            let text = "the settings for TLS stay as they were";
            let fields = [("reason", Value::Text(&error))];
            edge.log.event(Level::Warn, text, &fields);
        }
    }
}
