//! The command `certificates`: the certificates that come by themselves, as a running server knows them or as they are
//! stored. Orders nothing.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use certificates::{CertificateStatus, RenewalReason};
use command_line::{ApplicationArguments, ServerArguments};

use crate::acme;
use crate::cli::status_page::age;
use crate::cli::{client, print};
use crate::setup::Setup;

/// Prints the certificates of a server, or those that are stored if it does not run.
///
/// # Errors
/// There is neither.
pub(crate) fn run(server: &ServerArguments, json: bool) -> Result<()> {
    let all = match client::report(server) {
        Ok(report) => report.acme,
        Err(error) if server.pid.is_some() || server.socket.is_some() => return Err(error),
        Err(no_server) => {
            let arguments = ApplicationArguments {
                dir: server.dir.clone(),
                config: server.config.clone(),
                ..ApplicationArguments::default()
            };
            let stored = Setup::load(arguments).and_then(|one| acme::stored(&one.share()));
            // A stored certificate says more than that there is no server, which is the first reason otherwise.
            stored.map_err(|error| no_server.context(format!("{error:#}")))?
        }
    };
    let text = match json {
        true => serde_json::to_string_pretty(&all)? + "\n",
        false => render(&all, now()),
    };
    print(&text)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The page, with a newline at its end.
fn render(all: &[CertificateStatus], now: u64) -> String {
    if all.is_empty() {
        return "no certificates: tls_hosts names no host, and no client has come for one of acme_ask_url\n".to_owned();
    }
    let mut page = String::new();
    for one in all {
        // Writing to a string cannot fail.
        let _ = write(&mut page, one, now);
    }
    page
}

fn write(page: &mut String, one: &CertificateStatus, now: u64) -> std::fmt::Result {
    writeln!(page, "{}: {}", one.names.join(", "), state(one, now))?;
    if let (Some(issuer), Some(serial)) = (&one.issuer, &one.serial) {
        writeln!(page, "  from {issuer}, serial {serial}")?;
    }
    if let (Some(at), Some(reason)) = (one.renew_at, one.renew_reason) {
        let reason = match reason {
            RenewalReason::RenewalInformation => "as the authority suggests",
            RenewalReason::TwoThirds => "after two thirds of its life",
        };
        match at.saturating_sub(now) {
            0 => writeln!(page, "  renewal is due, {reason}")?,
            left => writeln!(page, "  renewed in {}, {reason}", age(left))?,
        }
    }
    if let Some(failure) = &one.failure {
        let (ago, next) = (
            now.saturating_sub(failure.at),
            failure.retry_at.saturating_sub(now),
        );
        writeln!(page, "  failed {} ago: {}", age(ago), failure.text)?;
        writeln!(
            page,
            "  failures in a row: {}, next attempt in {}",
            failure.failures,
            age(next)
        )?;
    }
    match &one.warning {
        Some(warning) => writeln!(page, "  warning: {warning}"),
        None => Ok(()),
    }
}

/// Whether there is a valid one, and for how long.
fn state(one: &CertificateStatus, now: u64) -> String {
    let state = match one.not_after {
        None => "no certificate".to_owned(),
        Some(end) if end <= now => format!("expired {} ago", age(now - end)),
        Some(end) => format!("valid for {}", age(end - now)),
    };
    match one.ordering {
        true => state + "; an order is on its way",
        false => state,
    }
}

#[cfg(test)]
mod tests {
    use certificates::FailureStatus;

    use super::*;

    #[test]
    fn the_page_shows_each_certificate_and_the_authoritys_words() {
        let good = CertificateStatus {
            names: vec!["a.example".to_owned()],
            ordering: false,
            not_before: Some(0),
            not_after: Some(90 * 86_400),
            issuer: Some("CN=R11".to_owned()),
            serial: Some("03ab".to_owned()),
            renew_at: Some(60 * 86_400),
            renew_reason: Some(RenewalReason::TwoThirds),
            failure: None,
            warning: None,
        };
        let missing = CertificateStatus {
            names: vec!["b.example".to_owned()],
            ordering: true,
            not_before: None,
            not_after: None,
            issuer: None,
            serial: None,
            renew_at: None,
            renew_reason: None,
            failure: Some(FailureStatus {
                at: 40,
                text: "checking b.example: no such host (dns)".to_owned(),
                problem: Some("dns".to_owned()),
                failures: 2,
                retry_at: 160,
            }),
            warning: Some("there is no certificate".to_owned()),
        };
        let expect = "\
a.example: valid for 89 d 23 h
  from CN=R11, serial 03ab
  renewed in 59 d 23 h, after two thirds of its life
b.example: no certificate; an order is on its way
  failed 1 min 0 s ago: checking b.example: no such host (dns)
  failures in a row: 2, next attempt in 1 min 0 s
  warning: there is no certificate
";
        assert_eq!(render(&[good, missing], 100), expect);
        assert!(render(&[], 100).contains("tls_hosts"));
    }
}
