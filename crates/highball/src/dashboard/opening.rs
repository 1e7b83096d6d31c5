//! `POST /v1/dashboard`: opens a dashboard on an address of this machine for as long as the command waits that asked for it.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use admin::{Access, Answer, Call, Lines, Problem, Routes, lines, serve_listener};
use front::panics::spawn_contained;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::dashboard::pages::{Dashboard, of_session};
use crate::dashboard::session::{DASHBOARD_IDLE_TIMEOUT, Opened, PATH, Session};

/// How often the command gets a sign of life.
const DASHBOARD_HEARTBEAT: Duration = Duration::from_secs(2);
/// The most dashboards that are open at once.
const MAX_DASHBOARDS: usize = 4;

/// What becomes of an opened dashboard: one line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum DashboardState {
    /// It is open.
    Opened {
        /// Where, with a key that works once.
        address: String,
    },
    /// A sign of life.
    Open,
    /// Nobody has looked at it for an hour: it has ended.
    Unused,
}

/// Adds the route that opens a dashboard.
pub(crate) fn add(routes: Routes, dashboard: &Rc<Dashboard>) -> Routes {
    let dashboard = Rc::clone(dashboard);
    let open = Rc::new(Cell::new(0));
    routes.post("/v1/dashboard", move |call| {
        start(Rc::clone(&dashboard), Rc::clone(&open), call)
    })
}

async fn start(
    dashboard: Rc<Dashboard>,
    open: Rc<Cell<usize>>,
    call: Call,
) -> Result<Answer, Problem> {
    if !call.is_local() {
        let text = "a dashboard is opened on the server's machine: highball dashboard";
        return Err(Problem::new(StatusCode::FORBIDDEN, text));
    }
    if open.get() == MAX_DASHBOARDS {
        let text = format!("{MAX_DASHBOARDS} dashboards are open: end one with Ctrl-C");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, text));
    }
    let failed = |error: &dyn std::error::Error| {
        let text = format!("cannot open a dashboard on 127.0.0.1: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(|error| failed(&error))?;
    let port = listener
        .local_addr()
        .map_err(|error| failed(&error))?
        .port();
    let Opened { session, key } = Session::open(port).map_err(|error| failed(&error))?;
    let address = format!("http://127.0.0.1:{port}{PATH}?key={key}");
    let (lines, answer) = lines();
    open.set(open.get() + 1);
    spawn_local(async move {
        let session = Rc::new(session);
        let routes = Rc::new(of_session(&dashboard, &session));
        let listener = Rc::new(listener);
        tokio::select! {
            () = serve_listener(listener, routes, || Access::Open.into(), spawn_contained) => {}
            () = watch(&session, &lines, address) => {}
        }
        session.close();
        open.set(open.get() - 1);
    });
    Ok(answer)
}

/// Tells the command the address and gives it signs of life, until it has gone or nobody has looked for long.
async fn watch(session: &Session, lines: &Lines, address: String) {
    let mut state = DashboardState::Opened { address };
    while lines.send(&state).await.is_ok() && state != DashboardState::Unused {
        tokio::select! {
            () = sleep(DASHBOARD_HEARTBEAT) => {}
            () = lines.closed() => return,
        }
        state = state_after(session.idle());
    }
}

/// The state of a dashboard that nobody has looked at for so long.
fn state_after(idle: Duration) -> DashboardState {
    match idle > DASHBOARD_IDLE_TIMEOUT {
        true => DashboardState::Unused,
        false => DashboardState::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashboard_that_nobody_looks_at_ends() {
        let second = Duration::from_secs(1);
        assert_eq!(state_after(DASHBOARD_IDLE_TIMEOUT), DashboardState::Open);
        assert_eq!(
            state_after(DASHBOARD_IDLE_TIMEOUT + second),
            DashboardState::Unused
        );
    }
}
