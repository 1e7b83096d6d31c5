//! Who is told of exceptions: from settings to the crate `notify`, and from the fronts of all applications to that. It keeps no
//! exception, and decides nothing about when people are told.

use std::rc::Rc;

use anyhow::{Context, Result};
use config::Settings;
use front::log::{AccessLog, Level};
use notify::{Plan, Teller};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::hosted::Hosted;

/// Lines for the log that the front has not taken yet; more are dropped.
const MAX_COMPLAINTS: usize = 64;

/// Has everybody whom the settings name be told of the exceptions of these applications.
///
/// # Errors
/// A setting cannot be used, or no thread can be had.
pub(crate) fn tell(settings: &Settings, hosted: &[Rc<Hosted>], log: &Rc<AccessLog>) -> Result<()> {
    let plan = plan(settings)?;
    if plan.is_empty() {
        return Ok(());
    }
    let complaints = log_complaints(Rc::clone(log));
    let teller = Teller::start(plan, move |text| {
        // The log belongs to another thread, which may be busy.
        let _ = complaints.try_send(text);
    });
    let teller = Rc::new(teller.context("cannot start the threads that tell of exceptions")?);
    for one in hosted {
        let (teller, name) = (Rc::clone(&teller), one.name().unwrap_or_default());
        let exceptions = one.front.exceptions();
        exceptions.on_notice(move |notice| teller.tell(notice.of_application(&name)));
    }
    Ok(())
}

/// Who is told.
///
/// # Errors
/// A setting cannot be used.
fn plan(settings: &Settings) -> Result<Plan> {
    let plan = Plan::new(
        settings.exception_webhook.as_deref(),
        settings.exception_mail_to.as_deref(),
        settings.exception_mail_from.as_deref(),
        &settings.smtp_url,
    );
    Ok(plan?)
}

/// Takes lines from other threads to the log.
pub(crate) fn log_complaints(log: Rc<AccessLog>) -> mpsc::Sender<String> {
    let (lines, mut received) = mpsc::channel::<String>(MAX_COMPLAINTS);
    spawn_local(async move {
        while let Some(text) = received.recv().await {
            log.event(Level::Warn, &text, &[]);
        }
    });
    lines
}
