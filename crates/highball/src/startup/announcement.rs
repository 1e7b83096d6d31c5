//! What a start prints for the person who waits for it: plain lines where the log is logfmt, else lines of the log. It decides
//! nothing.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;

use config::Settings;
use front::log::{AccessLog, Format, Level};

use crate::application::{Application, ready_line};
use crate::system::program::own_pid;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Says that the application is being loaded.
pub(super) fn loading(log: &AccessLog, application: &Application) {
    let settings = &application.settings;
    let text = format!(
        "highball {VERSION}: loading {} (environment {})",
        application.dir.display(),
        settings.environment
    );
    print(log, settings, &text);
    if settings.environment == "development"
        && !settings.chose_development()
        && !std::io::stdin().is_terminal()
    {
        let text = "no environment is named, so the limits of development apply: one worker, no deadline, a short stop. \
                    Set RAILS_ENV, RACK_ENV or --environment";
        log.event(Level::Warn, text, &[]);
    }
}

/// Says where the server listens, what it is, and in a terminal how it is stopped.
pub(super) fn serving(
    log: &AccessLog,
    settings: &Settings,
    sockets: &[String],
    generation: u32,
    ruby: &str,
) {
    for socket in sockets {
        print(log, settings, socket);
    }
    let text = format!(
        "{}, ruby {ruby}, pid {}",
        ready_line(settings, generation),
        own_pid()
    );
    print(log, settings, &text);
}

/// Says in a terminal where to click and how the server is stopped.
pub(super) fn how_to_stop(log: &AccessLog, settings: &Settings, names: &[String]) {
    if !std::io::stdout().is_terminal() {
        return;
    }
    let url = url(names).map_or_else(String::new, |url| format!("{url}: "));
    let text = format!("{url}Ctrl-C or `highball stop` stops the server");
    print(log, settings, &text);
}

/// Returns the URL of the first TCP address for a browser on this machine.
fn url(names: &[String]) -> Option<String> {
    let address = |name: &String| name.strip_prefix("http://")?.parse::<SocketAddr>().ok();
    let address = names.iter().find_map(address)?;
    let ip = address.ip();
    Some(match ip.is_loopback() || ip.is_unspecified() {
        true => format!("http://localhost:{}", address.port()),
        false => format!("http://{address}"),
    })
}

fn print(log: &AccessLog, settings: &Settings, text: &str) {
    if log.format() == Format::Logfmt || settings.log_file.is_some() {
        // A stdout that is closed is no reason to stop serving.
        let _ = writeln!(std::io::stdout(), "{text}");
    } else {
        log.event(Level::Info, text, &[]);
    }
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
        check(&["unix:/a"], None);
    }
}
