//! The pages of `dashboard_listen`: for those alone who have signed in. It keeps no session itself.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use admin::{Answer, Call, Problem, Routes, text};
use dashboard::{login, token_of_form};
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};

use crate::dashboard::pages::{
    Dashboard, PARTS, Part, answer, failed, file, to_the_page, with_headers,
};
use crate::dashboard::session::PATH;
use crate::dashboard::sign_in::{Refused, SignIn};

/// The file that the page for signing in needs.
const STYLE: &str = "page.css";
/// The routes for those who have signed in, and for signing in and out.
pub(crate) fn routes(dashboard: &Rc<Dashboard>, door: &Rc<SignIn>) -> Routes {
    let routes = PARTS
        .into_iter()
        .fold(Routes::default(), |routes, (path, part)| {
            let (dashboard, door) = (Rc::clone(dashboard), Rc::clone(door));
            routes.open(path, move |call: Call| {
                let (dashboard, door) = (Rc::clone(&dashboard), Rc::clone(&door));
                async move {
                    match door.admits(call.head(), Instant::now()) {
                        true => answer(dashboard, part, call, true).await,
                        false => for_strangers(part, &call),
                    }
                }
            })
        });
    let (entered, left) = (Rc::clone(door), Rc::clone(door));
    routes
        .open("/", |_| async { Ok(to_the_page(None)) })
        .open_post(PATH, move |call| {
            let entered = Rc::clone(&entered);
            async move { sign_in(&entered, &call) }
        })
        .open_post("/dashboard/sign-out", move |call| {
            let left = Rc::clone(&left);
            async move {
                left.sign_out(call.head());
                let cookie = left.cookie(call.head(), call.peer(), "; Max-Age=0");
                Ok(to_the_page(Some(&cookie)))
            }
        })
}

/// What somebody gets who has not signed in: nothing of the server.
fn for_strangers(part: Part, call: &Call) -> Result<Answer, Problem> {
    match part {
        Part::Page => sign_in_page(StatusCode::UNAUTHORIZED, None),
        Part::File if call.part() == STYLE => file(STYLE),
        _ => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "sign in at /dashboard",
        )),
    }
}

fn sign_in(door: &SignIn, call: &Call) -> Result<Answer, Problem> {
    let token = token_of_form(call.body()).unwrap_or_default();
    // Without one there is no connection that could have brought the request.
    let peer = call.peer().unwrap_or(IpAddr::from([0; 16]));
    let from = (network(peer), Instant::now());
    match door.sign_in(call.head(), &token, from) {
        Ok(value) => {
            let cookie = door.cookie(call.head(), call.peer(), &value);
            Ok(to_the_page(Some(&cookie)))
        }
        Err(refused) => {
            let status = match refused {
                Refused::Wrong | Refused::AnotherOrigin => StatusCode::UNAUTHORIZED,
                Refused::TooMany => StatusCode::TOO_MANY_REQUESTS,
                Refused::NoSecret => StatusCode::INTERNAL_SERVER_ERROR,
            };
            sign_in_page(status, Some(refused))
        }
    }
}

/// The network of an address: of IPv6 the first 64 bits, for one client has all addresses of such a network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

fn sign_in_page(status: StatusCode, refused: Option<Refused>) -> Result<Answer, Problem> {
    let problem = refused.map(|refused| refused.to_string());
    let html = login(problem.as_deref()).map_err(|error| failed(&error.to_string()))?;
    let mut answer = with_headers(text("text/html; charset=utf-8", html));
    *answer.status_mut() = status;
    if status == StatusCode::TOO_MANY_REQUESTS {
        let minute = HeaderValue::from_static("60");
        answer.headers_mut().insert(RETRY_AFTER, minute);
    }
    Ok(answer)
}
