//! Who gets the traces of requests: from settings and variables to the crate `traces`, and from the fronts of all applications
//! to that. It makes no span, and shows no secret.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::Settings;
use front::log::{AccessLog, Level};
use traces::{Exporter, Plan, Queue, Resource, Sampler, Tracer};

use crate::exceptions::log_complaints;
use crate::hosted::Hosted;
use crate::system::private_file;

/// The largest file of header fields, in bytes.
const MAX_HEADERS_FILE_BYTES: u64 = 16 * 1024;

/// What sends traces, until the server ends.
pub(crate) type SharedExporter = Rc<RefCell<Option<Exporter>>>;

/// Where traces are sent, if they are.
///
/// # Errors
/// A setting or a variable cannot be used.
pub(crate) fn plan(settings: &Settings, dir: &Path) -> Result<Option<Plan>> {
    if settings.otlp_endpoint == "none" {
        return Ok(None);
    }
    let file = settings.otlp_headers_file.as_ref().map(|file| {
        let path = dir.join(file);
        let text = private_file::read(&path, MAX_HEADERS_FILE_BYTES);
        text.with_context(|| format!("otlp_headers_file {}", path.display()))
    });
    let plan = Plan::new(
        &settings.otlp_endpoint,
        file.transpose()?.as_deref(),
        &variable,
    );
    Ok(plan?)
}

/// Has the requests of these applications be traced, if the settings or the variables name a receiver.
///
/// # Errors
/// A setting or a variable cannot be used, or no thread can be had.
pub(crate) fn start(
    settings: &Settings,
    dir: &Path,
    hosted: &[Rc<Hosted>],
    log: &Rc<AccessLog>,
) -> Result<SharedExporter> {
    let Some(plan) = plan(settings, dir)? else {
        return Ok(SharedExporter::default());
    };
    let lines = log_complaints(Rc::clone(log));
    let exporter = Exporter::start(plan, move |text| {
        // The log belongs to another thread, which may be busy.
        let _ = lines.try_send(text);
    });
    let exporter = exporter.context("cannot start the thread that sends traces")?;
    let sampler = Arc::new(Sampler::new(settings.trace_limit));
    for one in hosted {
        one.front.trace(Tracer {
            queue: Arc::clone(exporter.queue()),
            sampler: Arc::clone(&sampler),
            resource: Arc::new(resource(one, log)),
        });
    }
    Ok(Rc::new(RefCell::new(Some(exporter))))
}

/// What became of spans, where any are sent.
pub(crate) fn queue(exporter: &SharedExporter) -> Option<Arc<Queue>> {
    exporter
        .borrow()
        .as_ref()
        .map(|one| Arc::clone(one.queue()))
}

/// Sends what is left, within a bound.
pub(crate) async fn finish(exporter: &SharedExporter) {
    let exporter = exporter.borrow_mut().take();
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
}

fn resource(hosted: &Hosted, log: &AccessLog) -> Resource {
    let settings = hosted.front.settings();
    let resource = Resource::new(
        settings.trace_service.as_deref(),
        hosted.name().as_deref(),
        settings.release.as_deref(),
        &proc::machine::host_name(),
        &variable,
    );
    resource.unwrap_or_else(|(resource, error)| {
        log.event(Level::Warn, &error.to_string(), &[]);
        resource
    })
}

/// The value of a variable; an empty one is none, as OpenTelemetry wants it.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
