//! From the slow requests that the front keeps to what the dashboard shows of them: a list, one with its stacks, its flame
//! graph. Pure.

use std::path::Path;

use dashboard::{Opened, OpenedSlowRequest, SlowRequest};
use front::ApplicationFront;
use profiles::{StackTree, flame_graph, stacks_text};

/// The slow requests of an application, the slowest first.
pub(super) fn requests(front: &ApplicationFront) -> Vec<SlowRequest> {
    front.of_slow_requests(|request| Some(shown(request)))
}

/// The one with this key.
pub(super) fn find(front: &ApplicationFront, key: &str) -> Option<front::SlowRequest> {
    let with_key = |one: &front::SlowRequest| (key_of(one) == key).then(|| one.clone());
    front.of_slow_requests(with_key).into_iter().next()
}

/// What its page shows. Files in the application's folder are named relative to that.
pub(super) fn opened(
    request: front::SlowRequest,
    folder: &Path,
    application: Option<String>,
) -> Opened {
    Opened::Slow(OpenedSlowRequest {
        application,
        request: shown(&request),
        stack: stacks_text(&relative(request.stacks, folder)),
    })
}

/// Its flame graph, in SVG.
pub(super) fn flame(request: front::SlowRequest, folder: &Path) -> String {
    let (title, took) = (target(&request), duration_ms(&request));
    let note = format!("{took} ms, {} samples", request.stacks.samples());
    flame_graph(&relative(request.stacks, folder), &title, &note)
}

fn relative(mut stacks: StackTree, folder: &Path) -> StackTree {
    if let Some(folder) = folder.to_str() {
        stacks.make_relative(folder);
    }
    stacks
}

/// What no two requests of an hour have in common: an id may be a client's own choice, or none.
fn key_of(request: &front::SlowRequest) -> String {
    format!("{}-{:.0}", request.ended, request.app_ms * 1000.0)
}

fn target(request: &front::SlowRequest) -> String {
    format!("{} {}", request.method, request.path)
}

fn duration_ms(request: &front::SlowRequest) -> u64 {
    (request.queue_ms + request.app_ms) as u64
}

fn shown(request: &front::SlowRequest) -> SlowRequest {
    SlowRequest {
        key: key_of(request),
        at: request.ended,
        id: request.request_id.clone(),
        request: target(request),
        route: request.route.clone(),
        duration_ms: duration_ms(request),
        queue_ms: request.queue_ms as u64,
        database_ms: request.db_ms.map(|ms| ms as u64),
        status: request.status,
        outcome: request.outcome.clone(),
        worker: request.worker,
        samples: request.stacks.samples(),
    }
}
