//! Certificates that come by themselves: from settings to the crate `certificates`, and what that crate asks of the front.
//! Orders nothing itself.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use certificates::{
    CertificateStatus, ChallengeKind, ExternalAccount, Installer, Manager, Names, Plan, Severity,
    SystemClock, ask_url, directory_url,
};
use config::Settings;
use front::Front;
use front::log::{AccessLog, Level};
use rustls::sign::CertifiedKey;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::setup::Setup;
use crate::sockets::Sockets;
use crate::system::state_folder::state_folder;

/// Lines for the log that the front has not taken yet; more are dropped.
const MAX_LOG_LINES: usize = 256;

/// Starts what keeps the certificates of `tls_hosts` and those on demand; `None` if there are to be none. Stored certificates are in use when this
/// returns.
///
/// # Errors
/// A setting cannot be used.
pub(crate) fn start(
    setup: &Setup,
    front: &Rc<Front>,
    log: &Rc<AccessLog>,
    sockets: &Sockets,
) -> Result<Option<Manager>> {
    if !wants_certificates(&setup.settings) {
        return Ok(None);
    }
    let plan = plan(setup)?;
    let kinds = [
        (ChallengeKind::Http01, sockets.has_plain_tcp()),
        (ChallengeKind::TlsAlpn01, sockets.has_tls()),
    ];
    let installer = FrontInstaller {
        certificates: Arc::clone(front.certificates()),
        kinds: kinds
            .into_iter()
            .filter(|one| one.1)
            .map(|one| one.0)
            .collect(),
        lines: log_lines(Rc::clone(log)),
    };
    let manager = Manager::start(plan, Arc::new(installer), Arc::new(SystemClock))?;
    if let Some(demands) = manager.demands() {
        let certificates = front.certificates();
        certificates.on_unknown_host(move |host| {
            let decided = demands.demand(host)?;
            Some(Box::pin(decided))
        });
    }
    Ok(Some(manager))
}

/// Whether these settings want certificates that come by themselves.
fn wants_certificates(settings: &Settings) -> bool {
    !settings.tls_hosts.is_empty() || settings.acme_ask_url.is_some()
}

/// Says what is wrong with the settings for certificates, if anything.
///
/// # Errors
/// A setting cannot be used.
pub(crate) fn check(setup: &Setup) -> Result<()> {
    match wants_certificates(&setup.settings) {
        true => plan(setup).map(drop),
        false => Ok(()),
    }
}

/// What the settings want.
fn plan(setup: &Setup) -> Result<Plan> {
    let settings = &setup.settings;
    let names = |host: &String| {
        let names = Names::new(&[host]).context("tls_hosts")?;
        if names.has_wildcard() && settings.acme_dns_command.is_none() {
            bail!(
                "tls_hosts {host:?}: authorities check a wildcard by DNS alone; set acme_dns_command"
            );
        }
        Ok(names)
    };
    let file = |path: &Option<String>| path.as_ref().map(|path| setup.named.join(path));
    let external_account = match (&settings.acme_eab_key_id, file(&settings.acme_eab_key_file)) {
        (Some(id), Some(path)) => Some(ExternalAccount::from_file(id.clone(), &path)?),
        (None, None) => None,
        _ => bail!("acme_eab_key_id and acme_eab_key_file are needed together"),
    };
    let dns_command = file(&settings.acme_dns_command);
    if let Some(program) = &dns_command {
        rustix::fs::access(program, rustix::fs::Access::EXEC_OK)
            .with_context(|| format!("acme_dns_command {} cannot be run", program.display()))?;
    }
    let ask_url = settings.acme_ask_url.as_deref().map(ask_url);
    Ok(Plan {
        sets: settings
            .tls_hosts
            .iter()
            .map(names)
            .collect::<Result<_>>()?,
        directory: directory_url(&settings.acme_directory).context("acme_directory")?,
        contact: settings.acme_contact.clone(),
        external_account,
        profile: settings.acme_profile.clone(),
        ca_file: file(&settings.acme_ca_file),
        storage: storage(setup)?,
        dns_command,
        ask_url: ask_url.transpose().context("acme_ask_url")?,
    })
}

/// The certificates that are stored on this machine for the application, for a command that finds no server.
///
/// # Errors
/// The settings or the storage cannot be read.
pub(crate) fn stored(setup: &Setup) -> Result<Vec<CertificateStatus>> {
    let storage = storage(setup)?;
    let all = certificates::read_storage(&storage, std::time::SystemTime::now());
    all.with_context(|| format!("cannot read {}", storage.display()))
}

/// The folder where everything is kept.
fn storage(setup: &Setup) -> Result<PathBuf> {
    let settings: &Settings = &setup.settings;
    let Some(set) = &settings.acme_storage else {
        let folder = state_folder(setup);
        let folder = folder.context("there is no folder for certificates: set acme_storage")?;
        return Ok(folder.join("acme"));
    };
    let path = PathBuf::from(set);
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    if !path.is_absolute() || real.starts_with(&setup.dir) || real.starts_with(&setup.named) {
        bail!(
            "acme_storage {set:?} must be an absolute path outside of the application's folder, which a deploy replaces"
        );
    }
    Ok(path)
}

/// What the manager of certificates asks of the front.
struct FrontInstaller {
    certificates: Arc<front::Certificates>,
    kinds: Vec<ChallengeKind>,
    lines: mpsc::Sender<(Severity, String)>,
}

impl Installer for FrontInstaller {
    fn challenges(&self) -> Vec<ChallengeKind> {
        self.kinds.clone()
    }

    fn install(&self, names: &[String], certificate: Arc<CertifiedKey>) {
        self.certificates.install(names, certificate);
    }

    fn answer_http01(&self, token: &str, key_authorization: &str) {
        let answer = Some(key_authorization.to_owned());
        self.certificates.challenge_http(token, answer);
    }

    fn remove_http01(&self, token: &str) {
        self.certificates.challenge_http(token, None);
    }

    fn answer_alpn01(&self, name: &str, certificate: Arc<CertifiedKey>) {
        self.certificates.challenge_alpn(name, Some(certificate));
    }

    fn remove_alpn01(&self, name: &str) {
        self.certificates.challenge_alpn(name, None);
    }

    fn log(&self, severity: Severity, text: &str) {
        // The log belongs to another thread.
        let _ = self.lines.try_send((severity, text.to_owned()));
    }
}

/// Takes lines from other threads to the log.
fn log_lines(log: Rc<AccessLog>) -> mpsc::Sender<(Severity, String)> {
    let (lines, mut received) = mpsc::channel::<(Severity, String)>(MAX_LOG_LINES);
    spawn_local(async move {
        while let Some((severity, text)) = received.recv().await {
            let level = match severity {
                Severity::Info => Level::Info,
                Severity::Warning => Level::Warn,
            };
            log.event(level, &text, &[]);
        }
    });
    lines
}
