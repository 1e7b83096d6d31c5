//! The pages of the dashboard as routes of the operators' HTTP server. They only read.

use std::rc::Rc;

use admin::{Answer, Call, Problem, Routes, text};
use dashboard::{Alone, FLAME_POLICY, HEADERS, Model, Opened, View, live, page, resource};
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, LOCATION, SET_COOKIE};
use tokio::task::spawn_blocking;

use crate::control::reporter::Reporter;
use crate::dashboard::history::History;
use crate::dashboard::model::{model, server};
use crate::dashboard::session::{Admission, PATH, Session};
use crate::dashboard::{exceptions, slow};
use crate::hosted::Hosted;

/// What the pages show.
pub(crate) struct Dashboard {
    pub(crate) reporter: Rc<Reporter>,
    pub(crate) history: Rc<History>,
}

/// A part of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Page,
    Live,
    Flame,
    File,
}

/// The paths of all parts; a path comes before one that it matches too.
pub(super) const PARTS: [(&str, Part); 4] = [
    (PATH, Part::Page),
    ("/dashboard/live", Part::Live),
    ("/dashboard/flame.svg", Part::Flame),
    ("/dashboard/{file}", Part::File),
];

/// Adds the pages for clients that have a token or come over the control socket.
pub(crate) fn add(routes: Routes, dashboard: &Rc<Dashboard>) -> Routes {
    PARTS.into_iter().fold(routes, |routes, (path, part)| {
        let dashboard = Rc::clone(dashboard);
        routes.get(path, move |call| {
            answer(Rc::clone(&dashboard), part, call, false)
        })
    })
}

/// Returns the pages for the browser of a session.
pub(super) fn of_session(dashboard: &Rc<Dashboard>, session: &Rc<Session>) -> Routes {
    PARTS
        .into_iter()
        .fold(Routes::default(), |routes, (path, part)| {
            let (dashboard, session) = (Rc::clone(dashboard), Rc::clone(session));
            routes.open(path, move |call: Call| {
                let (dashboard, session) = (Rc::clone(&dashboard), Rc::clone(&session));
                async move {
                    match session.admit(call.head(), call.parameter("key"))? {
                        Admission::Admitted => answer(dashboard, part, call, false).await,
                        Admission::Exchanged(cookie) => Ok(to_the_page(Some(&cookie))),
                    }
                }
            })
        })
}

/// Answers a request for a part. `has_session`: the reader can sign out.
pub(super) async fn answer(
    dashboard: Rc<Dashboard>,
    part: Part,
    call: Call,
    has_session: bool,
) -> Result<Answer, Problem> {
    let view = View::parse(call.head().uri.query().unwrap_or_default());
    match part {
        Part::File => file(call.part()),
        Part::Flame => flame(&dashboard, &view).await,
        Part::Page | Part::Live => {
            let shown = match &view.alone {
                None => overview(&dashboard).await,
                Some(alone) => one_alone(&dashboard, &view, alone),
            };
            let model = Model {
                has_session,
                ..shown
            };
            html(model, view, part).await
        }
    }
}

/// A file of the page.
pub(super) fn file(name: &str) -> Result<Answer, Problem> {
    let found = resource(name).ok_or_else(no_such_file)?;
    Ok(with_headers(text(found.content_type, found.body)))
}

/// Writes the page on another thread: clients wait for the front's.
async fn html(model: Model, view: View, part: Part) -> Result<Answer, Problem> {
    let written = spawn_blocking(move || match part {
        Part::Page => page(&model, &view),
        _ => live(&model, &view),
    });
    match written.await {
        Ok(Ok(html)) => Ok(with_headers(text("text/html; charset=utf-8", html))),
        Ok(Err(error)) => Err(failed(&error.to_string())),
        Err(_) => Err(failed("the page could not be written")),
    }
}

async fn overview(dashboard: &Dashboard) -> Model {
    let report = dashboard.reporter.report().await;
    let mut model = model(&report, &dashboard.history);
    let hosted = dashboard.reporter.hosted.iter();
    // Both are in the order of the settings.
    for (application, hosted) in model.applications.iter_mut().zip(hosted) {
        application.exceptions = exceptions::groups(&hosted.front.exceptions());
        application.slow = slow::requests(&hosted.front);
    }
    model
}

/// What a page shows that has one thing alone: nothing else is gathered.
fn one_alone(dashboard: &Dashboard, view: &View, alone: &Alone) -> Model {
    let report = dashboard.reporter.report_without_memory();
    let mut hosted = dashboard.reporter.hosted.iter();
    let opened = hosted.find_map(|hosted| {
        let name = hosted_name(hosted, view)?;
        match alone {
            Alone::Exception(id) => exceptions::opened(&hosted.front.exceptions(), id, name),
            Alone::Slow(key) => {
                let folder = hosted.application.borrow().dir.clone();
                let found = slow::find(&hosted.front, key)?;
                Some(slow::opened(found, &folder, name))
            }
        }
    });
    Model {
        server: server(&report),
        opened: opened.or(Some(Opened::Missing)),
        ..Model::default()
    }
}

/// The name of an application that the view is about, which an only one has not; `None` of one that it is not about.
fn hosted_name(hosted: &Hosted, view: &View) -> Option<Option<String>> {
    let name = hosted.name();
    let is_meant = name.is_none() || view.application.is_none() || name == view.application;
    is_meant.then_some(name)
}

/// The flame graph of a slow request, drawn on another thread.
async fn flame(dashboard: &Dashboard, view: &View) -> Result<Answer, Problem> {
    let Some(Alone::Slow(key)) = &view.alone else {
        return Err(no_such_file());
    };
    let mut hosted = dashboard.reporter.hosted.iter();
    let found = hosted.find_map(|hosted| {
        hosted_name(hosted, view)?;
        let folder = hosted.application.borrow().dir.clone();
        Some((slow::find(&hosted.front, key)?, folder))
    });
    let (request, folder) = found.ok_or_else(no_such_file)?;
    let drawn = spawn_blocking(move || slow::flame(request, &folder)).await;
    let svg = drawn.map_err(|_| failed("the picture could not be drawn"))?;
    let mut answer = with_headers(text("image/svg+xml", svg));
    let policy = HeaderValue::from_static(FLAME_POLICY);
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    Ok(answer)
}

pub(super) fn failed(text: &str) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, text)
}

fn no_such_file() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "the dashboard has no such file")
}

/// Leads to the page, whose address has no key, with this value of `Set-Cookie`.
pub(super) fn to_the_page(cookie: Option<&str>) -> Answer {
    let mut answer = with_headers(text("text/plain", ""));
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let fields = answer.headers_mut();
    fields.insert(LOCATION, HeaderValue::from_static(PATH));
    if let Some(Ok(cookie)) = cookie.map(HeaderValue::from_str) {
        fields.insert(SET_COOKIE, cookie);
    }
    answer
}

pub(super) fn with_headers(mut answer: Answer) -> Answer {
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}
