//! From the model to HTML. Everything that is shown is escaped in one place, the formatter of the templates; nothing in a
//! page needs a style or a script of its own, so that the strictest policy of contents holds.

use minijinja::context;
use serde::Serialize;

use crate::chart::Chart;
use crate::model::opened::Opened;
use crate::model::{Application, Mark, Model};
use crate::series::Measured;
use crate::text::{age, ago, moment};
use crate::view::{Period, View};
use exception::ExceptionPage;
use slow::SlowPage;
use table::Table;
use template::fill;
use tiles::Tile;

pub use template::PageError;

mod charts;
mod events;
mod exception;
mod facts;
mod routes;
mod slow;
mod table;
mod template;
mod tiles;
mod workers;

/// Returns the whole page.
///
/// # Errors
/// A template is wrong, which tests exclude.
pub fn page(model: &Model, view: &View) -> Result<String, PageError> {
    render(model, view, true)
}

/// Returns the part of the page that changes, which its script asks for every two seconds.
///
/// # Errors
/// A template is wrong, which tests exclude.
pub fn live(model: &Model, view: &View) -> Result<String, PageError> {
    render(model, view, false)
}

/// Returns the page on which a reader signs in, with what was wrong the last time.
///
/// # Errors
/// A template is wrong, which tests exclude.
pub fn login(problem: Option<&str>) -> Result<String, PageError> {
    fill("login.html", context! { problem })
}

/// The token in the body of the form for signing in.
pub fn token_of_form(body: &[u8]) -> Option<String> {
    let mut fields = form_urlencoded::parse(body);
    let token = fields.find(|(name, _)| name == "token");
    token.map(|(_, token)| token.trim().to_owned())
}

fn render(model: &Model, view: &View, whole: bool) -> Result<String, PageError> {
    let framed = Framed {
        whole,
        title: String::new(),
        taken: moment(model.server.now),
        query: view.query(),
        has_session: model.has_session,
        content: (),
    };
    match &model.opened {
        None => {
            let overview = Overview::of(model, view);
            let title = format!("{} · Highball", overview.name);
            framed.with(title, overview).render("overview.html")
        }
        Some(Opened::Exception(opened)) => {
            let title = format!("{} · Highball", opened.group.class);
            let page = ExceptionPage::of(opened, model, view);
            framed.with(title, page).render("exception.html")
        }
        Some(Opened::Slow(opened)) => {
            let title = format!("{} · Highball", opened.request.request);
            let page = SlowPage::of(opened, model, view);
            framed.with(title, page).render("slow.html")
        }
        Some(Opened::Missing) => {
            let back = view.of_all().link();
            let page = MissingPage { back };
            framed
                .with("Not found".to_owned(), page)
                .render("missing.html")
        }
    }
}

/// What every template within the frame is given.
#[derive(Debug, Serialize)]
struct Framed<T> {
    /// Whether the whole page is wanted, and not only what changes.
    whole: bool,
    title: String,
    taken: String,
    query: String,
    has_session: bool,
    #[serde(flatten)]
    content: T,
}

impl<T: Serialize> Framed<T> {
    fn with<C>(self, title: String, content: C) -> Framed<C> {
        Framed {
            whole: self.whole,
            title,
            taken: self.taken,
            query: self.query,
            has_session: self.has_session,
            content,
        }
    }

    fn render(&self, template: &str) -> Result<String, PageError> {
        fill(template, self)
    }
}

/// The page of something that is not kept.
#[derive(Debug, Serialize)]
struct MissingPage {
    back: String,
}

/// What the page with everything consists of.
#[derive(Debug, Serialize)]
struct Overview<'a> {
    name: &'a str,
    version: &'a str,
    state: &'a str,
    /// State, folder, process, since when.
    about: String,
    listeners: &'a [String],
    navigation: Vec<Link>,
    periods: Vec<Link>,
    alarms: Vec<String>,
    tiles: Vec<Tile>,
    charts: Vec<Chart>,
    marks: Vec<MarkView>,
    applications: Option<Table>,
    routes: Table,
    exceptions: Table,
    slow: Table,
    workers: Table,
    tables: Vec<Table>,
}

/// A link in a row of links.
#[derive(Debug, Serialize)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) href: String,
    /// Whether it leads to this page.
    pub(super) current: bool,
}

/// A line of the list of what happened.
#[derive(Debug, Serialize)]
struct MarkView {
    number: usize,
    when: String,
    ago: String,
    text: String,
}

/// What of the model a page shows.
struct Scope<'a> {
    model: &'a Model,
    view: &'a View,
    /// The chosen application, or all.
    applications: Vec<&'a Application>,
    measured: &'a Measured,
    /// Whether rows name their application.
    several: bool,
    /// Its marks with the numbers that charts show.
    marks: Vec<(usize, &'a Mark)>,
}

/// The newest marks are listed, at most so many.
const MARKS: usize = 20;

impl<'a> Scope<'a> {
    fn of(model: &'a Model, view: &'a View) -> Self {
        let chosen = view.application.as_deref();
        let mut all = model.applications.iter();
        let chosen = chosen.and_then(|name| all.find(|one| one.name == name));
        let (applications, measured) = match (chosen, &model.applications[..]) {
            (Some(one), _) | (None, [one]) => (vec![one], &one.measured),
            (None, several) => (several.iter().collect(), &model.measured),
        };
        let marks = model
            .marks
            .iter()
            .filter(|mark| match (&mark.application, chosen) {
                (Some(name), Some(chosen)) => *name == chosen.name,
                _ => true,
            });
        let marks: Vec<&Mark> = marks.collect();
        let newest = marks.len().saturating_sub(MARKS);
        let marks = marks[newest..].iter().enumerate();
        Self {
            model,
            view,
            several: applications.len() > 1,
            applications,
            measured,
            marks: marks.map(|(index, mark)| (index + 1, *mark)).collect(),
        }
    }

    /// The name of an application where a row has to say it.
    fn name<'b>(&self, application: &'b Application) -> Option<&'b str> {
        self.several.then_some(&*application.name)
    }
}

impl<'a> Overview<'a> {
    fn of(model: &'a Model, view: &'a View) -> Self {
        let scope = Scope::of(model, view);
        let server = &model.server;
        let name = match &scope.applications[..] {
            [one] => one.name.as_str(),
            _ => "all applications",
        };
        let up = age(server.now.saturating_sub(server.started));
        Self {
            name,
            version: &server.version,
            state: &server.state,
            about: format!("{} · pid {} · up {up}", server.dir, server.pid),
            listeners: &server.listeners,
            navigation: navigation(&scope),
            periods: periods(view),
            alarms: alarms(&scope),
            tiles: tiles::tiles(&scope),
            charts: charts::charts(&scope),
            marks: marks(&scope),
            applications: scope.several.then(|| facts::applications(&scope)),
            routes: routes::table(&scope),
            exceptions: events::exceptions(&scope),
            slow: events::slow(&scope),
            workers: workers::table(&scope),
            tables: facts::tables(&scope),
        }
    }
}

/// Links to all applications together and to each; none where there is one.
fn navigation(scope: &Scope<'_>) -> Vec<Link> {
    let applications = &scope.model.applications;
    if applications.len() < 2 {
        return Vec::new();
    }
    let shown = match (scope.several, &scope.applications[..]) {
        (false, [one]) => Some(one.name.as_str()),
        _ => None,
    };
    let names = applications.iter().map(|one| Some(one.name.as_str()));
    let link = |name: Option<&str>| Link {
        name: name.unwrap_or("All applications").to_owned(),
        href: View {
            application: name.map(str::to_owned),
            ..scope.view.clone()
        }
        .link(),
        current: name == shown,
    };
    [None].into_iter().chain(names).map(link).collect()
}

fn periods(view: &View) -> Vec<Link> {
    let periods = [(Period::Recent, "10 minutes"), (Period::Day, "24 hours")];
    let link = |(period, name): (Period, &str)| Link {
        name: name.to_owned(),
        href: View {
            period,
            ..view.clone()
        }
        .link(),
        current: view.period == period,
    };
    periods.map(link).into()
}

/// What needs somebody now, before everything else.
fn alarms(scope: &Scope<'_>) -> Vec<String> {
    let prefix = |one: &Application| match scope.name(one) {
        Some(name) => format!("{name}: "),
        None => String::new(),
    };
    let outages = scope.applications.iter().filter_map(|one| {
        let seconds = one.next_start_s?;
        let prefix = prefix(one);
        Some(format!(
            "{prefix}no worker can serve: requests get 503; next start in {seconds} s"
        ))
    });
    let full = scope.applications.iter().filter(|one| one.queue.limit > 0);
    let full = full.filter(|one| one.queue.length >= one.queue.limit);
    let full = full.map(|one| format!("{}the queue is full: requests get 503", prefix(one)));
    let certificates = scope.model.certificates.iter().filter_map(|one| {
        let warning = one.warning.as_ref()?;
        Some(format!("certificate {}: {warning}", one.names.join(", ")))
    });
    outages.chain(full).chain(certificates).collect()
}

fn marks(scope: &Scope<'_>) -> Vec<MarkView> {
    let newest_first = scope.marks.iter().rev();
    let mark = |(number, mark): &(usize, &Mark)| MarkView {
        number: *number,
        when: moment(mark.at),
        ago: ago(mark.at, scope.model.server.now),
        text: match &mark.application {
            Some(name) if scope.several => format!("{name}: {}", mark.text),
            _ => mark.text.clone(),
        },
    };
    newest_first.map(mark).collect()
}
