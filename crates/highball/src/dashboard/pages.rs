//! The pages of the dashboard as routes of the operators' HTTP server. They only read.

use std::rc::Rc;

use admin::{Answer, Call, Problem, Routes, text};
use dashboard::{HEADERS, View, live, page, resource};
use http::StatusCode;
use http::header::{HeaderName, HeaderValue, LOCATION, SET_COOKIE};

use crate::control::reporter::Reporter;
use crate::dashboard::exceptions;
use crate::dashboard::history::History;
use crate::dashboard::model::model;
use crate::dashboard::session::{Admission, PATH, Session};
use crate::dashboard::slow;

/// What the pages show.
pub(crate) struct Dashboard {
    pub(crate) reporter: Rc<Reporter>,
    pub(crate) history: Rc<History>,
}

/// A part of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Page,
    Live,
    File,
}

/// Adds the pages for clients that have a token or come over the control socket.
pub(crate) fn add(routes: Routes, dashboard: &Rc<Dashboard>) -> Routes {
    let handler = |part| {
        let dashboard = Rc::clone(dashboard);
        move |call| answer(Rc::clone(&dashboard), part, call)
    };
    routes
        .get(PATH, handler(Part::Page))
        .get("/dashboard/live", handler(Part::Live))
        .get("/dashboard/{file}", handler(Part::File))
}

/// Returns the pages for the browser of a session.
pub(super) fn of_session(dashboard: &Rc<Dashboard>, session: &Rc<Session>) -> Routes {
    let handler = |part| {
        let (dashboard, session) = (Rc::clone(dashboard), Rc::clone(session));
        move |call: Call| {
            let (dashboard, session) = (Rc::clone(&dashboard), Rc::clone(&session));
            async move {
                match session.admit(call.head(), call.parameter("key"))? {
                    Admission::Admitted => answer(dashboard, part, call).await,
                    Admission::Exchanged(cookie) => Ok(to_the_page(&cookie)),
                }
            }
        }
    };
    Routes::default()
        .open(PATH, handler(Part::Page))
        .open("/dashboard/live", handler(Part::Live))
        .open("/dashboard/{file}", handler(Part::File))
}

async fn answer(dashboard: Rc<Dashboard>, part: Part, call: Call) -> Result<Answer, Problem> {
    if part == Part::File {
        let found = resource(call.part()).ok_or_else(no_such_file)?;
        return Ok(with_headers(text(found.content_type, found.body)));
    }
    let report = dashboard.reporter.report().await;
    let mut model = model(&report, &dashboard.history);
    let hosted = dashboard.reporter.hosted.iter();
    // Both are in the order of the settings.
    for (application, hosted) in model.applications.iter_mut().zip(hosted) {
        application.exceptions = exceptions::groups(&hosted.front.exceptions());
        let folder = hosted.application.borrow().dir.clone();
        application.slow = slow::requests(hosted.front.slow_requests(), &folder);
    }
    let view = View::parse(call.head().uri.query().unwrap_or_default());
    let html = match part {
        Part::Page => page(&model, &view),
        Part::Live | Part::File => live(&model, &view),
    };
    let failed = |error: dashboard::PageError| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    let html = html.map_err(failed)?;
    Ok(with_headers(text("text/html; charset=utf-8", html)))
}

fn no_such_file() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "the dashboard has no such file")
}

/// Leads to the page, whose address has no key.
fn to_the_page(cookie: &str) -> Answer {
    let mut answer = with_headers(text("text/plain", ""));
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let fields = answer.headers_mut();
    fields.insert(LOCATION, HeaderValue::from_static(PATH));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        fields.insert(SET_COOKIE, cookie);
    }
    answer
}

fn with_headers(mut answer: Answer) -> Answer {
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}
