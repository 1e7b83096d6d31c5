//! From the slow requests that the front keeps to what the dashboard shows of them. Pure.

use std::path::Path;

use dashboard::SlowRequest;

/// The slowest ones are shown, at most so many of an application.
const SHOWN: usize = 20;

/// The slow requests of an application, the slowest first. Files in its folder are named relative to that.
pub(super) fn requests(all: Vec<front::SlowRequest>, folder: &Path) -> Vec<SlowRequest> {
    let shown = all.into_iter().take(SHOWN);
    shown.map(|request| shown_of(request, folder)).collect()
}

fn shown_of(mut request: front::SlowRequest, folder: &Path) -> SlowRequest {
    if let Some(folder) = folder.to_str() {
        request.stacks.make_relative(folder);
    }
    SlowRequest {
        at: request.ended,
        id: request.request_id.unwrap_or_default(),
        request: format!("{} {}", request.method, request.path),
        route: request.route,
        duration_ms: (request.queue_ms + request.app_ms) as u64,
        queue_ms: request.queue_ms as u64,
        database_ms: request.db_ms.map(|ms| ms as u64),
        status: request.status,
        outcome: request.outcome,
        worker: request.worker,
        samples: request.stacks.samples(),
        stack: profiles::stacks_text(&request.stacks),
        flame: None,
    }
}
