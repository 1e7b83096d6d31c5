//! The routes of the operators' API for exceptions: the groups of all applications, and one of them with its samples. They
//! only read.

use std::rc::Rc;

use admin::{Answer, Call, Problem, Routes, json};
use http::StatusCode;
use serde_json::{Value, json as value};
use tokio::task::spawn_blocking;

use crate::hosted::Hosted;

/// Adds the routes.
pub(crate) fn add_routes(routes: Routes, hosted: &[Rc<Hosted>]) -> Routes {
    let [listed, searched] = [hosted.to_vec(), hosted.to_vec()];
    routes
        .get("/v1/exceptions", move |call| encoded(list(&listed, &call)))
        .get("/v1/exceptions/{group}", move |call| {
            encoded(group(&searched, &call))
        })
}

/// Writes the answer on another thread: it may have megabytes, and clients wait for the front's thread.
async fn encoded(value: Result<Value, Problem>) -> Result<Answer, Problem> {
    let value = value?;
    let encoded = spawn_blocking(move || json(&value)).await;
    encoded.map_err(|_| {
        let text = "the answer could not be written";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}

/// The groups of all applications or of the one that is named, the latest first in each.
fn list(hosted: &[Rc<Hosted>], call: &Call) -> Result<Value, Problem> {
    let wanted = call.parameter("application");
    let is_wanted =
        |one: &&Rc<Hosted>| wanted.is_none_or(|wanted| one.name().unwrap_or_default() == wanted);
    if !hosted.iter().any(|one| is_wanted(&one)) {
        let text = "there is no application of this name: GET /v1/status has them";
        return Err(Problem::new(StatusCode::NOT_FOUND, text));
    }
    let (mut groups, mut unreadable) = (Vec::new(), 0);
    for one in hosted.iter().filter(is_wanted) {
        let mut list = one.front.exceptions().list();
        unreadable += list["unreadable_reports"].as_u64().unwrap_or_default();
        if let Value::Array(own) = list["groups"].take() {
            groups.extend(own.into_iter().map(|group| named(group, one)));
        }
    }
    Ok(value!({ "groups": groups, "unreadable_reports": unreadable }))
}

fn group(hosted: &[Rc<Hosted>], call: &Call) -> Result<Value, Problem> {
    let find = |one: &Rc<Hosted>| {
        let found = one.front.exceptions().group(call.part());
        found.map(|group| named(group, one))
    };
    let mut found = hosted.iter().filter_map(find);
    match (found.next(), found.next()) {
        (Some(group), None) => Ok(group),
        _ => {
            let text = "no group of exceptions has this id, or several begin so: highball exceptions lists them";
            Err(Problem::new(StatusCode::NOT_FOUND, text))
        }
    }
}

fn named(mut group: Value, hosted: &Hosted) -> Value {
    group["application"] = hosted.name().unwrap_or_default().into();
    group
}
