//! What a start prints for the person who waits for it. It decides nothing.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::rc::Rc;

use front::log::{AccessLog, Level};

use crate::hosted::Hosted;
use crate::server::ready_line;
use crate::setup::Setup;
use crate::system::program::own_pid;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What people should know about this server's settings.
pub(super) fn warnings(log: &AccessLog, texts: &[String]) {
    for text in texts {
        log.event(Level::Warn, text, &[]);
    }
}

/// Says that the application is being loaded.
pub(super) fn loading(log: &AccessLog, setup: &Setup) {
    let settings = &setup.settings;
    let what = match &setup.applications[..] {
        [only] if only.table.is_none() => setup.dir.display().to_string(),
        all => {
            let names: Vec<_> = all.iter().filter_map(|one| one.name()).collect();
            names.join(", ")
        }
    };
    let environment = &settings.environment;
    let text = format!("highball {VERSION}: loading {what} (environment {environment})");
    log.announce(&text);
    if settings.environment_is_default() && !std::io::stdin().is_terminal() {
        let text = "no environment is named, so the limits of development apply: one worker, no deadline, a short stop. \
                    Set RAILS_ENV, RACK_ENV or --environment";
        log.event(Level::Warn, text, &[]);
    }
}

/// Says where the server listens, what it is, and in a terminal how it is stopped.
pub(super) fn serving(log: &AccessLog, sockets: &[String], hosted: &[Rc<Hosted>], ruby: &str) {
    for socket in sockets {
        log.announce(socket);
    }
    let text = format!("{}, ruby {ruby}, pid {}", ready_line(hosted), own_pid());
    log.announce(&text);
}

/// Says in a terminal where to click and how the server is stopped.
pub(super) fn how_to_stop(log: &AccessLog, names: &[String]) {
    if !std::io::stdout().is_terminal() {
        return;
    }
    let url = url(names).map_or_else(String::new, |url| format!("{url}: "));
    let text = format!("{url}Ctrl-C or `highball stop` stops the server");
    log.announce(&text);
}

/// Returns the URL of the first TCP address for a browser on this machine.
fn url(names: &[String]) -> Option<String> {
    let address = |name: &String| {
        let (scheme, address) = name.split_once("://")?;
        Some((scheme.to_owned(), address.parse::<SocketAddr>().ok()?))
    };
    let (scheme, address) = names.iter().find_map(address)?;
    let ip = address.ip();
    Some(match ip.is_loopback() || ip.is_unspecified() {
        true => format!("{scheme}://localhost:{}", address.port()),
        false => format!("{scheme}://{address}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_one_that_a_browser_can_open() {
        let check = |names: &[&str], expect: Option<&str>| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(url(&names).as_deref(), expect);
        };
        check(
            &["http://0.0.0.0:3000", "http://[::]:3000"],
            Some("http://localhost:3000"),
        );
        check(
            &["unix:/a", "http://127.0.0.1:80"],
            Some("http://localhost:80"),
        );
        check(&["http://192.0.2.7:80"], Some("http://192.0.2.7:80"));
        check(
            &["http://[2001:db8::1]:80"],
            Some("http://[2001:db8::1]:80"),
        );
        check(&["https://[::]:443"], Some("https://localhost:443"));
        check(&["unix:/a"], None);
    }
}
