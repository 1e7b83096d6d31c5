//! Which application a request is for, where there are several behind one port: by its host, then by the longest prefix of
//! its path. It looks at nothing else of a request, and allocates nothing for one.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use config::MAX_HOST_BYTES;

use crate::failure::Failure;
use crate::serve::application::Application;
use crate::serve::plan::ApplicationPlan;

/// What an edge serves.
pub struct Served {
    /// The one application; where there are several, what stands for one where a request is none's.
    pub application: Rc<Application>,
    /// Which application a request is for, where there are several.
    pub routes: Option<Routes>,
}

/// The applications, and which requests each of them gets.
pub struct Routes {
    /// By their numbers.
    applications: Vec<Rc<Application>>,
    table: Arc<Table>,
}

/// Hosts and prefixes, with the numbers of their applications.
#[derive(Default)]
struct Table {
    /// Of whole names.
    exact: HashMap<Box<[u8]>, Vec<Route>>,
    /// Of names below these, by one label.
    wildcard: HashMap<Box<[u8]>, Vec<Route>>,
    /// Of all other names.
    others: Vec<Route>,
}

/// A prefix of paths. Those of one host are sorted: the longest first.
struct Route {
    prefix: Box<[u8]>,
    application: u16,
}

/// Routes on their way to another edge.
pub(crate) struct RoutesSeed(Arc<Table>);

impl RoutesSeed {
    /// Returns the routes to these applications, which are in the order of the first edge's.
    pub(crate) fn grow(self, applications: Vec<Rc<Application>>) -> Routes {
        Routes {
            applications,
            table: self.0,
        }
    }
}

impl Routes {
    /// Returns the routes of these plans to applications in the same order.
    pub(crate) fn new(plans: &[ApplicationPlan], applications: Vec<Rc<Application>>) -> Self {
        let mut table = Table::default();
        for (number, plan) in (0..).zip(plans) {
            table.add(plan, number);
        }
        Self {
            applications,
            table: Arc::new(table),
        }
    }

    /// Returns the same routes for another edge.
    pub(crate) fn seed(&self) -> RoutesSeed {
        RoutesSeed(Arc::clone(&self.table))
    }

    /// The application of a request for this host, as the client wrote it, and this path: its number, and the bytes of the
    /// path that stand for it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn find(&self, host: Option<&str>, path: &[u8]) -> Result<(u16, u16), Failure> {
        let route = self.table.find(host, path)?;
        // The settings allow no longer prefix.
        Ok((route.application, route.prefix.len() as u16))
    }

    /// The applications by their numbers.
    pub fn applications(&self) -> &[Rc<Application>] {
        &self.applications
    }
}

impl Table {
    fn add(&mut self, plan: &ApplicationPlan, application: u16) {
        let route = || Route {
            prefix: plan.prefix.as_bytes().into(),
            application,
        };
        if plan.hosts.is_empty() {
            insert(&mut self.others, route());
        }
        for host in &plan.hosts {
            let map = match host.is_wildcard() {
                true => &mut self.wildcard,
                false => &mut self.exact,
            };
            let name = host.name().as_bytes().into();
            insert(map.entry(name).or_default(), route());
        }
    }

    /// The route of a request for this host, as the client wrote it, and this path.
    ///
    /// # Errors
    /// There is none.
    fn find(&self, host: Option<&str>, path: &[u8]) -> Result<&Route, Failure> {
        let mut buffer = [0; MAX_HOST_BYTES];
        let host = normalized(host.unwrap_or_default(), &mut buffer);
        let exact = self.exact.get(host);
        let dot = host.iter().position(|&byte| byte == b'.');
        let below = dot.filter(|&dot| dot > 0).map(|dot| &host[dot + 1..]);
        let wildcard = below.and_then(|name| self.wildcard.get(name));
        let known = exact.is_some() || wildcard.is_some() || !self.others.is_empty();
        let all = exact.into_iter().chain(wildcard).chain([&self.others]);
        let mut fitting = all.flatten().filter(|route| route.has(path));
        fitting.next().ok_or(match known {
            true => Failure::NoApplication,
            false => Failure::UnknownHost,
        })
    }
}

impl Route {
    /// Whether it is that of a path: the prefix itself, or what is below it.
    fn has(&self, path: &[u8]) -> bool {
        let rest = path.strip_prefix(&*self.prefix);
        rest.is_some_and(|rest| self.prefix.is_empty() || matches!(rest.first(), None | Some(b'/')))
    }
}

/// Adds a route behind those with a longer prefix.
fn insert(routes: &mut Vec<Route>, route: Route) {
    let shorter = |one: &Route| one.prefix.len() < route.prefix.len();
    let at = routes.iter().position(shorter).unwrap_or(routes.len());
    routes.insert(at, route);
}

/// A host without its port and the dot at its end, in lower case; empty where it is too long for a name.
fn normalized<'a>(host: &str, buffer: &'a mut [u8; MAX_HOST_BYTES]) -> &'a [u8] {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let Some(lower) = buffer.get_mut(..name.len()) else {
        return &[];
    };
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    lower
}

#[cfg(test)]
mod tests {
    use config::{HostPattern, Settings};

    use super::*;
    use crate::serve::reader::Reader;

    fn table(plans: &[(&[&str], &str)]) -> Table {
        let mut table = Table::default();
        for (number, (hosts, prefix)) in (0..).zip(plans) {
            let hosts = hosts.iter().map(|host| HostPattern::parse(host).unwrap());
            let plan = ApplicationPlan {
                name: None,
                hosts: hosts.collect(),
                prefix: (*prefix).to_owned(),
                settings: Rc::new(Settings::for_tests()),
                generation: 1,
                reader: Reader::default(),
            };
            table.add(&plan, number);
        }
        table
    }

    fn found(table: &Table, host: &str, path: &str) -> Result<u16, Failure> {
        let route = table.find(Some(host), path.as_bytes());
        route.map(|route| route.application)
    }

    #[test]
    fn the_most_exact_host_wins_and_then_the_longest_prefix() {
        let table = table(&[
            (&["a.test"], ""),
            (&["a.test"], "/wiki"),
            (&["a.test"], "/wiki/old"),
            (&["*.test"], ""),
            (&["b.test"], "/only"),
        ]);
        let check =
            |host, path, expect| assert_eq!(found(&table, host, path), expect, "{host} {path}");
        check("a.test", "/", Ok(0));
        check("a.test", "/wiki", Ok(1));
        check("a.test", "/wiki/", Ok(1));
        check("a.test", "/wikis", Ok(0));
        check("a.test", "/wiki/old/x", Ok(2));
        check("a.test", "*", Ok(0));
        check("c.test", "/wiki", Ok(3));
        // What the exact host does not have, the wildcard may.
        check("b.test", "/only/x", Ok(4));
        check("b.test", "/", Ok(3));
    }

    #[test]
    fn a_host_is_compared_without_port_case_and_dot_at_its_end() {
        let table = table(&[(&["a.test", "[::1]"], ""), (&["*.b.test"], "")]);
        let check = |host, expect| assert_eq!(found(&table, host, "/"), expect, "{host}");
        check("A.Test:8080", Ok(0));
        check("a.test.", Ok(0));
        check("a.test.:80", Ok(0));
        check("[::1]", Ok(0));
        check("[::1]:80", Ok(0));
        check("X.B.TEST:1", Ok(1));
        for unknown in ["", "b.test", "x.y.b.test", ".b.test", "a.test..", "a.tes"] {
            check(unknown, Err(Failure::UnknownHost));
        }
        check(&"x".repeat(300), Err(Failure::UnknownHost));
    }

    #[test]
    fn an_application_without_hosts_gets_what_no_other_has() {
        let table = table(&[(&["a.test"], ""), (&[], "/any")]);
        assert_eq!(found(&table, "z.test", "/any/x"), Ok(1));
        assert_eq!(found(&table, "a.test", "/any/x"), Ok(0));
        assert_eq!(found(&table, "z.test", "/"), Err(Failure::NoApplication));
    }
}
