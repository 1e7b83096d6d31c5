//! The table of routes.

use std::cmp::Ordering;

use super::Scope;
use super::table::{Cell, Head, Row, Table};
use crate::model::Route;
use crate::text::{NOTHING, figure, maybe_duration, percent};
use crate::view::{RouteOrder, View};

/// So many are shown until all are asked for.
const FIRST_ROUTES: usize = 20;
/// A larger share of errors is marked.
const MANY_ERRORS: f64 = 0.01;

pub(super) fn table(scope: &Scope<'_>) -> Table {
    let applications = scope.applications.iter();
    let mut routes: Vec<(Option<&str>, &Route)> = applications
        .flat_map(|one| one.routes.iter().map(|route| (scope.name(one), route)))
        .collect();
    let total: f64 = routes.iter().map(|(_, route)| route.total_s).sum();
    let view = scope.view;
    routes.sort_by(|(_, a), (_, b)| {
        let ordered = compare(view.order, a, b);
        let ordered = if view.ascending {
            ordered
        } else {
            ordered.reverse()
        };
        ordered.then_with(|| a.name.cmp(&b.name))
    });
    let shown = if view.all_routes {
        routes.len()
    } else {
        FIRST_ROUTES
    };
    let rows = routes
        .iter()
        .take(shown)
        .map(|(application, route)| row(*application, route, total));
    Table {
        id: "routes",
        caption: "Routes".to_owned(),
        heads: RouteOrder::ALL.map(|order| head(view, order)).into(),
        rows: rows.collect(),
        empty: "No request has been measured yet.",
        more: more(view, routes.len()),
    }
}

/// The link to all routes, or to the first ones again.
fn more(view: &View, count: usize) -> Option<(String, String)> {
    let other = View {
        all_routes: !view.all_routes,
        ..view.clone()
    };
    let text = match view.all_routes {
        true => format!("The first {FIRST_ROUTES} routes"),
        false => format!("All {count} routes"),
    };
    (count > FIRST_ROUTES).then(|| (format!("{}#routes", other.link()), text))
}

fn head(view: &View, order: RouteOrder) -> Head {
    let title = match order {
        RouteOrder::Name => "Route",
        RouteOrder::Count => "Requests",
        RouteOrder::Rate => "A second",
        RouteOrder::Mean => "Mean",
        RouteOrder::P50 => "p50",
        RouteOrder::P95 => "p95",
        RouteOrder::P99 => "p99",
        RouteOrder::Time => "Share of time",
        RouteOrder::Database => "Database",
        RouteOrder::View => "Views",
        RouteOrder::Queries => "Queries",
        RouteOrder::Cpu => "CPU",
        RouteOrder::Lock => "Lock",
        RouteOrder::Gc => "GC",
        RouteOrder::Objects => "Objects",
        RouteOrder::Errors => "Errors",
    };
    let direction = if view.ascending {
        "ascending"
    } else {
        "descending"
    };
    Head {
        title,
        link: Some(format!("{}#routes", view.sorted_by(order).link())),
        sort: (view.order == order).then_some(direction),
    }
}

/// A share of something, where there is something.
fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn database(route: &Route) -> Option<f64> {
    share(route.database_s?, route.total_s)
}

fn views(route: &Route) -> Option<f64> {
    share(route.view_s?, route.total_s)
}

fn cpu(route: &Route) -> Option<f64> {
    share(route.cpu_s?, route.total_s)
}

fn lock(route: &Route) -> Option<f64> {
    share(route.lock_s?, route.total_s)
}

fn mean(route: &Route) -> Option<f64> {
    share(route.total_s, route.count as f64)
}

fn collection(route: &Route) -> Option<f64> {
    share(route.gc_s?, route.total_s)
}

fn errors(route: &Route) -> Option<f64> {
    share(route.errors as f64, route.count as f64)
}

fn compare(order: RouteOrder, a: &Route, b: &Route) -> Ordering {
    // What is unknown is smaller than all that is known.
    let by = |figure: &dyn Fn(&Route) -> Option<f64>| {
        let known = |route| figure(route).unwrap_or(f64::NEG_INFINITY);
        known(a).total_cmp(&known(b))
    };
    match order {
        RouteOrder::Name => a.name.cmp(&b.name),
        RouteOrder::Count => a.count.cmp(&b.count),
        RouteOrder::Rate => a.rate.total_cmp(&b.rate),
        RouteOrder::Mean => by(&mean),
        RouteOrder::P50 => by(&|route| route.p50_s),
        RouteOrder::P95 => by(&|route| route.p95_s),
        RouteOrder::P99 => by(&|route| route.p99_s),
        RouteOrder::Time => a.total_s.total_cmp(&b.total_s),
        RouteOrder::Database => by(&database),
        RouteOrder::View => by(&views),
        RouteOrder::Queries => by(&|route| route.queries),
        RouteOrder::Cpu => by(&cpu),
        RouteOrder::Lock => by(&lock),
        RouteOrder::Gc => by(&collection),
        RouteOrder::Objects => by(&|route| route.objects),
        RouteOrder::Errors => by(&errors),
    }
}

fn row(application: Option<&str>, route: &Route, total: f64) -> Row {
    let text = |share: Option<f64>, text: fn(f64) -> String| {
        Cell::number(share.map_or_else(|| NOTHING.to_owned(), text))
    };
    let of_all = share(route.total_s, total);
    Row {
        name: route.name.clone(),
        detail: application.map(str::to_owned),
        link: None,
        cells: vec![
            Cell::number(route.count),
            Cell::number(figure(route.rate)),
            Cell::number(maybe_duration(mean(route))),
            Cell::number(maybe_duration(route.p50_s)),
            Cell::number(maybe_duration(route.p95_s)),
            Cell::number(maybe_duration(route.p99_s)),
            text(of_all, percent).with_bar(of_all.unwrap_or_default()),
            text(database(route), percent),
            text(views(route), percent),
            text(route.queries, figure),
            text(cpu(route), percent),
            text(lock(route), percent),
            text(collection(route), percent),
            text(route.objects, figure),
            text(errors(route), percent)
                .bad_if(errors(route).is_some_and(|share| share > MANY_ERRORS)),
        ],
    }
}
