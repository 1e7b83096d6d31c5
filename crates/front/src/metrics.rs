//! What the metrics learn of a request that has ended. It counts nothing itself: the crate `metrics` does.

use exchange::measures::Measures;
use metrics::{Cost, Route};

use crate::failure::Outcome;
use crate::http::ended::Ended;

/// Records a request that has ended, where requests are measured.
pub fn record(ended: &Ended<'_>) {
    let application = &ended.transaction.application;
    if !application.settings.get().measure_requests {
        return;
    }
    let status = ended.sent.status.map(|status| status.as_u16());
    let failed = !matches!(ended.outcome, Outcome::Ok | Outcome::Hijacked);
    let record = metrics::Ended {
        method: ended.transaction.request.method.as_str(),
        route: route(ended, status),
        status,
        failed: failed || status.is_some_and(|status| status >= 500),
        whole: ended.whole,
        queue: ended.queue,
        app: ended.app,
        cost: ended.measures.as_ref().map(cost),
    };
    application.recorder.record(&record);
    if let (Some(halves), Some(worker)) = (&*application.halves.borrow(), ended.worker) {
        halves.record(worker.generation, &record);
    }
}

/// Where a request went. What the application did not find is no route, for clients can invent as many paths as they like.
fn route<'a>(ended: &Ended<'a>, status: Option<u16>) -> Route<'a> {
    let named = ended.measures.map_or(&b""[..], |measures| measures.route);
    match (named, status) {
        (b"", Some(404 | 405)) => Route::None,
        (b"", _) if ended.app.is_none() => Route::None,
        (b"", _) => Route::Path(ended.transaction.request.path()),
        (named, _) => Route::Named(named),
    }
}

fn cost(measures: &Measures<'_>) -> Cost {
    Cost {
        overlapped: measures.overlapped,
        cpu_ns: measures.cpu_ns,
        gc_ns: measures.gc_ns,
        allocations: measures.allocations,
        db_ns: measures.db_ns.unwrap_or(0),
        view_ns: measures.view_ns.unwrap_or(0),
        lock_wait_ns: measures.lock_wait_ns,
        queries: measures.queries.unwrap_or(0).into(),
    }
}
