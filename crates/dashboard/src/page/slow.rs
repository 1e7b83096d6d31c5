//! The page of one slow request: figures, flame graph, the same as text. It draws no flame graph: that is another address.

use serde::Serialize;

use crate::model::Model;
use crate::model::opened::OpenedSlowRequest;
use crate::text::{ago, milliseconds, moment};
use crate::view::View;

/// What the template is given.
#[derive(Debug, Serialize)]
pub(super) struct SlowPage<'a> {
    back: String,
    request: &'a str,
    when: String,
    list: Vec<(&'static str, String)>,
    /// The address of the picture, where there is a sample.
    flame: Option<String>,
    stack: &'a str,
}

impl<'a> SlowPage<'a> {
    pub(super) fn of(opened: &'a OpenedSlowRequest, model: &Model, view: &View) -> Self {
        let request = &opened.request;
        Self {
            back: view.of_all().link(),
            request: &request.request,
            when: moment(request.at),
            list: list(opened, model.server.now),
            flame: (request.samples > 0).then(|| format!("dashboard/flame.svg?{}", view.query())),
            stack: &opened.stack,
        }
    }
}

fn list(opened: &OpenedSlowRequest, now: u64) -> Vec<(&'static str, String)> {
    let request = &opened.request;
    let known = [
        ("Took", Some(milliseconds(request.duration_ms))),
        ("Waited in the queue", Some(milliseconds(request.queue_ms))),
        ("Database", request.database_ms.map(milliseconds)),
        ("Ended", Some(ago(request.at, now))),
        ("Status", request.status.map(|status| status.to_string())),
        ("Outcome", Some(request.outcome.clone())),
        ("Route", request.route.clone()),
        ("Worker", request.worker.map(|worker| worker.to_string())),
        ("Application", opened.application.clone()),
        ("Request id", request.id.clone()),
        ("Samples of its thread", Some(request.samples.to_string())),
    ];
    let known = known.into_iter();
    known
        .filter_map(|(name, text)| Some((name, text?)))
        .collect()
}
