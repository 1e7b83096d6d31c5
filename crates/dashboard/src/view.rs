//! What of the model a page shows, as its address says it. A query that makes no sense shows the usual page: it is never
//! an error.

use form_urlencoded::Serializer;

/// A name in a query may have so many bytes.
const MAX_APPLICATION_BYTES: usize = 200;
/// The id of a group of exceptions or a slow request may have so many bytes.
const MAX_ID_BYTES: usize = 64;

/// What a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The application; all together without one.
    pub application: Option<String>,
    /// How much time the charts show.
    pub period: Period,
    /// By what routes are sorted.
    pub order: RouteOrder,
    /// Whether the smallest comes first.
    pub ascending: bool,
    /// Whether all routes are shown, and not only the first ones.
    pub all_routes: bool,
    /// What the page shows alone; everything without it.
    pub alone: Option<Alone>,
}

/// What has a page of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alone {
    /// A group of exceptions, by its id.
    Exception(String),
    /// A slow request, by its key.
    Slow(String),
}

/// How much time charts show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    /// The last ten minutes.
    #[default]
    Recent,
    /// The last day.
    Day,
}

/// The columns of the table of routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteOrder {
    /// The name.
    Name,
    /// Requests.
    Count,
    /// Requests a second.
    Rate,
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
    /// The share of the time of all requests.
    #[default]
    Time,
    /// The database's share of the route's time.
    Database,
    /// The views' share of the route's time.
    View,
    /// Queries a request.
    Queries,
    /// The share of CPU time.
    Cpu,
    /// The share of waiting for Ruby's lock.
    Lock,
    /// The share of garbage collection.
    Gc,
    /// Objects that a request allocates.
    Objects,
    /// The share of errors.
    Errors,
}

impl RouteOrder {
    pub(crate) const ALL: [Self; 16] = [
        Self::Name,
        Self::Count,
        Self::Rate,
        Self::Mean,
        Self::P50,
        Self::P95,
        Self::P99,
        Self::Time,
        Self::Database,
        Self::View,
        Self::Queries,
        Self::Cpu,
        Self::Lock,
        Self::Gc,
        Self::Objects,
        Self::Errors,
    ];

    /// In addresses.
    fn key(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Count => "count",
            Self::Rate => "rate",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Time => "time",
            Self::Database => "database",
            Self::View => "view",
            Self::Queries => "queries",
            Self::Cpu => "cpu",
            Self::Lock => "lock",
            Self::Gc => "gc",
            Self::Objects => "objects",
            Self::Errors => "errors",
        }
    }
}

impl View {
    /// Reads the query of an address, without its question mark.
    pub fn parse(query: &str) -> Self {
        let mut view = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match (&*name, &*value) {
                ("application", value) if value.len() <= MAX_APPLICATION_BYTES => {
                    view.application = Some(value.to_owned()).filter(|name| !name.is_empty());
                }
                ("period", "day") => view.period = Period::Day,
                ("sort", value) => {
                    let mut known = RouteOrder::ALL.into_iter();
                    view.order = known.find(|one| one.key() == value).unwrap_or_default();
                }
                ("order", "ascending") => view.ascending = true,
                ("routes", "all") => view.all_routes = true,
                ("exception", id) if is_id(id) => {
                    view.alone = Some(Alone::Exception(id.to_owned()));
                }
                ("slow", key) if is_id(key) => view.alone = Some(Alone::Slow(key.to_owned())),
                _ => {}
            }
        }
        view
    }

    /// The query of this page: what [`View::parse`] reads.
    pub fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        if let Some(name) = &self.application {
            query.append_pair("application", name);
        }
        if self.period == Period::Day {
            query.append_pair("period", "day");
        }
        if self.order != RouteOrder::default() {
            query.append_pair("sort", self.order.key());
        }
        if self.ascending {
            query.append_pair("order", "ascending");
        }
        if self.all_routes {
            query.append_pair("routes", "all");
        }
        match &self.alone {
            Some(Alone::Exception(id)) => drop(query.append_pair("exception", id)),
            Some(Alone::Slow(key)) => drop(query.append_pair("slow", key)),
            None => {}
        }
        query.finish()
    }

    /// A link to this page.
    pub(crate) fn link(&self) -> String {
        format!("?{}", self.query())
    }

    /// The page of one exception or slow request of an application.
    pub(crate) fn of_one(&self, application: Option<&str>, alone: Alone) -> Self {
        Self {
            application: application.map(str::to_owned).or(self.application.clone()),
            alone: Some(alone),
            ..self.clone()
        }
    }

    /// The page with everything.
    pub(crate) fn of_all(&self) -> Self {
        Self {
            alone: None,
            ..self.clone()
        }
    }

    /// A page that is sorted by a column: the other way round, where this one is. Names are sorted from A to Z at first,
    /// numbers from the largest.
    pub(crate) fn sorted_by(&self, order: RouteOrder) -> Self {
        Self {
            order,
            ascending: match self.order == order {
                true => !self.ascending,
                false => order == RouteOrder::Name,
            },
            ..self.clone()
        }
    }
}

fn is_id(text: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_it_was_written() {
        let view = View {
            application: Some("shop & \"wiki\" <é>".to_owned()),
            period: Period::Day,
            order: RouteOrder::P95,
            ascending: true,
            all_routes: true,
            alone: Some(Alone::Exception("0a1b".into())),
        };
        assert_eq!(View::parse(&view.query()), view);
        let slow = view.of_one(None, Alone::Slow("17-250000".into()));
        assert_eq!(View::parse(&slow.query()), slow);
        assert_eq!(slow.of_all(), view.of_all());
        for order in RouteOrder::ALL {
            let view = View::default().sorted_by(order);
            assert_eq!(View::parse(&view.query()), view);
        }
        assert_eq!(View::default().query(), "");
    }

    #[test]
    fn a_query_without_sense_is_the_usual_page() {
        let long = format!("application={}", "a".repeat(MAX_APPLICATION_BYTES + 1));
        let long_id = format!("slow={}", "a".repeat(MAX_ID_BYTES + 1));
        for query in [
            "",
            "%",
            "sort=%00",
            "sort",
            "period=year&x=1",
            &long,
            &long_id,
            "slow=&exception=",
            "application=",
            "&&=&",
        ] {
            assert_eq!(View::parse(query), View::default(), "{query}");
        }
    }

    #[test]
    fn a_second_sort_by_a_column_turns_it_round() {
        let once = View::default().sorted_by(RouteOrder::P95);
        assert!(!once.ascending, "the largest first");
        assert!(once.sorted_by(RouteOrder::P95).ascending);
        assert!(once.sorted_by(RouteOrder::Name).ascending, "from A to Z");
    }
}
