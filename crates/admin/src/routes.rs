//! The table of routes: method, path, who may use it, and the handler. It reads no request.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;

use http::header::{ALLOW, HeaderValue};
use http::{Method, StatusCode};

use crate::answer::{Answer, Problem};
use crate::call::Call;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everybody who reaches an address of `metrics_listen`, without a token.
    Open,
    /// Clients that may read.
    Read,
    /// Clients that may change the server.
    Change,
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, Problem>>>>;
type Handler = dyn Fn(Call) -> Answering;

/// One route.
pub struct Route {
    /// `GET` or `POST`.
    pub method: Method,
    /// Its path; a part may be `{name}`, which stands for any text without a slash.
    pub path: &'static str,
    /// Who may use it.
    pub rights: Rights,
    handler: Rc<Handler>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({:?})", self.method, self.path, self.rights)
    }
}

/// All routes.
#[derive(Debug, Default)]
pub struct Routes(Vec<Route>);

impl Routes {
    /// Adds a route that everybody may read who reaches `metrics_listen`.
    pub fn open<F>(self, path: &'static str, handler: impl Fn(Call) -> F + 'static) -> Self
    where
        F: Future<Output = Result<Answer, Problem>> + 'static,
    {
        self.add(Method::GET, path, Rights::Open, handler)
    }

    /// Adds a route that everybody may use, such as a form to sign in.
    pub fn open_post<F>(self, path: &'static str, handler: impl Fn(Call) -> F + 'static) -> Self
    where
        F: Future<Output = Result<Answer, Problem>> + 'static,
    {
        self.add(Method::POST, path, Rights::Open, handler)
    }

    /// Adds a route that only reads.
    pub fn get<F>(self, path: &'static str, handler: impl Fn(Call) -> F + 'static) -> Self
    where
        F: Future<Output = Result<Answer, Problem>> + 'static,
    {
        self.add(Method::GET, path, Rights::Read, handler)
    }

    /// Adds a route that changes the server.
    pub fn post<F>(self, path: &'static str, handler: impl Fn(Call) -> F + 'static) -> Self
    where
        F: Future<Output = Result<Answer, Problem>> + 'static,
    {
        self.add(Method::POST, path, Rights::Change, handler)
    }

    fn add<F>(
        mut self,
        method: Method,
        path: &'static str,
        rights: Rights,
        handler: impl Fn(Call) -> F + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Answer, Problem>> + 'static,
    {
        self.0.push(Route {
            method,
            path,
            rights,
            handler: Rc::new(move |call| Box::pin(handler(call))),
        });
        self
    }

    /// Each route, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.0.iter()
    }

    /// Finds the route of a request among those that `shown` lets through; with what stands for its `{name}`.
    ///
    /// # Errors
    /// No route has the path (404), or none with this method (405).
    pub(crate) fn find(
        &self,
        method: &Method,
        path: &str,
        shown: impl Fn(Rights) -> bool,
    ) -> Result<(&Route, Option<String>), Problem> {
        let shown = self.0.iter().filter(|route| shown(route.rights));
        let found: Vec<_> = shown
            .filter_map(|route| Some((route, matched(route.path, path)?)))
            .collect();
        // What is answered to GET is answered to HEAD, without its body (RFC 9110 section 9.3.2).
        let asked = match *method {
            Method::HEAD => &Method::GET,
            _ => method,
        };
        if let Some((route, part)) = found.iter().find(|(route, _)| route.method == asked) {
            return Ok((route, part.clone()));
        }
        let Some((other, _)) = found.first() else {
            let text = "there is no such path here; docs/admin.md lists them";
            return Err(Problem::new(StatusCode::NOT_FOUND, text));
        };
        let text = format!("this path takes {}, and not this method", other.method);
        let allow = HeaderValue::from_str(other.method.as_str());
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, text);
        Err(match allow {
            Ok(allow) => problem.with(ALLOW, allow),
            Err(_) => problem,
        })
    }
}

impl Route {
    /// Carries a request out.
    pub(crate) async fn answer(&self, call: Call) -> Result<Answer, Problem> {
        (self.handler)(call).await
    }
}

/// Whether a path is the one of a route; with what stands for `{name}`.
fn matched(route: &str, path: &str) -> Option<Option<String>> {
    let Some((before, _)) = route.split_once('{') else {
        return (route == path).then_some(None);
    };
    let part = path.strip_prefix(before)?;
    let is_part = !part.is_empty() && !part.contains('/');
    is_part.then(|| Some(part.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::json;

    fn routes() -> Routes {
        let answer = |_: Call| async { Ok(json(&1)) };
        Routes::default()
            .open("/live", answer)
            .get("/v1/status", answer)
            .get("/v1/exceptions/{id}", answer)
            .post("/v1/restart", answer)
    }

    #[test]
    fn a_request_finds_the_route_of_its_method_and_path() {
        let routes = routes();
        let check = |method: Method, path: &str, expect: Result<(&str, Option<&str>), u16>| {
            let found = routes.find(&method, path, |_| true);
            let found = found
                .map(|(route, part)| (route.path, part))
                .map_err(|problem| problem.into_answer().status().as_u16());
            let expect = expect.map(|(path, part)| (path, part.map(str::to_owned)));
            assert_eq!(found, expect, "{method} {path}");
        };
        check(Method::GET, "/live", Ok(("/live", None)));
        check(Method::HEAD, "/live", Ok(("/live", None)));
        check(Method::POST, "/v1/restart", Ok(("/v1/restart", None)));
        let exception = Ok(("/v1/exceptions/{id}", Some("a1")));
        check(Method::GET, "/v1/exceptions/a1", exception);
        for path in ["/v1/exceptions/", "/v1/exceptions/a/b", "/", "/live/", ""] {
            check(Method::GET, path, Err(404));
        }
        check(Method::GET, "/v1/restart", Err(405));
        check(Method::DELETE, "/live", Err(405));
    }

    #[test]
    fn routes_that_are_not_shown_do_not_exist() {
        let routes = routes();
        let open = |rights| rights == Rights::Open;
        assert!(routes.find(&Method::GET, "/live", open).is_ok());
        let hidden = routes.find(&Method::POST, "/v1/restart", open);
        let status = hidden.unwrap_err().into_answer().status();
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
}
