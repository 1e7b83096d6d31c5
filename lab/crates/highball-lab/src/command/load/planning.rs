//! From flags to a plan, checked whole. It sends nothing; names of hosts are looked up.

use anyhow::{Context as _, Result, bail};

use super::Arguments;
use super::requests_file::{self, Requests};
use super::url::{Server, Url};
use loadgen::plan::{End, Mode, Plan, Request, Trust};

/// Fields that the generator writes itself. RFC 9112 section 6: a second length makes the framing ambiguous.
const OWN: [&str; 4] = ["Host", "Content-Length", "Connection", "Transfer-Encoding"];

/// The plan that the flags ask for.
///
/// # Errors
/// What is wrong with the flags, or with a file that they name.
pub(super) fn plan(arguments: &Arguments) -> Result<Plan> {
    let urls = arguments
        .urls
        .iter()
        .map(|url| Url::parse(url))
        .collect::<Result<Vec<_>>>()?;
    let server = one_server(&urls)?;
    let Requests { requests, login } = requests(arguments, &urls)?;
    let plan = Plan {
        target: server.target(trust(arguments), !arguments.no_resumption)?,
        host: server.host().to_owned(),
        requests,
        login,
        mode: mode(arguments),
        connections: arguments.connections,
        streams: arguments.http2.then_some(arguments.streams as usize),
        timeout: arguments.timeout,
        threads: arguments
            .threads
            .map_or(arguments.cores.len().max(1), |threads| threads as usize),
        cores: arguments.cores.clone(),
        seed: arguments.seed,
    };
    plan.check()?;
    Ok(plan)
}

fn trust(arguments: &Arguments) -> Trust {
    match &arguments.cacert {
        _ if arguments.insecure => Trust::Any,
        Some(file) => Trust::File(file.clone()),
        None => Trust::System,
    }
}

fn mode(arguments: &Arguments) -> Mode {
    match arguments.rate {
        Some(rate) => Mode::Open {
            rate,
            arrivals: arguments.arrivals,
            duration: arguments.duration,
            max_connections: arguments.max_connections as usize,
        },
        None => Mode::Closed {
            connections: arguments.concurrency as usize,
            end: match arguments.count {
                Some(count) => End::Requests(count),
                None => End::After(arguments.duration),
            },
        },
    }
}

/// The warm-up before `plan`, of the same requests.
pub(super) fn warm_up(plan: &Plan, duration: std::time::Duration) -> Plan {
    Plan {
        mode: plan.mode.lasting(duration),
        ..plan.clone()
    }
}

fn one_server(urls: &[Url]) -> Result<&Server> {
    let first = &urls.first().context("a URL is missing")?.server;
    if let Some(other) = urls.iter().find(|url| url.server != *first) {
        bail!(
            "the URLs are of two servers, {} and {}; one load goes to one server",
            named(first),
            named(&other.server)
        );
    }
    Ok(first)
}

fn named(server: &Server) -> String {
    match server {
        Server::Tcp { authority, .. } => authority.clone(),
        Server::Unix(path) => path.display().to_string(),
    }
}

fn requests(arguments: &Arguments, urls: &[Url]) -> Result<Requests> {
    let headers = arguments
        .headers
        .iter()
        .map(|field| header(field))
        .collect::<Result<Vec<_>>>()?;
    let mut requests = match &arguments.requests {
        Some(file) => {
            if urls.len() > 1 || urls.iter().any(|url| url.path != "/" || url.weight != 1.0) {
                bail!(
                    "with --requests the paths are those of the file; give the server's URL alone"
                );
            }
            requests_file::read(file)?
        }
        None => Requests {
            requests: of_urls(arguments, urls)?,
            login: None,
        },
    };
    let expected = requests_file::expected(arguments.expect_status, arguments.expect_length);
    for request in &mut requests.requests {
        request.expected = request.expected.or(expected);
    }
    for request in requests.requests.iter_mut().chain(&mut requests.login) {
        request.headers.extend(headers.iter().cloned());
        for (name, _) in &request.headers {
            if let Some(own) = OWN.iter().find(|own| own.eq_ignore_ascii_case(name)) {
                bail!("the field {own} of a request is the generator's own; leave it out");
            }
        }
    }
    Ok(requests)
}

fn of_urls(arguments: &Arguments, urls: &[Url]) -> Result<Vec<Request>> {
    let body = arguments.body.as_deref().map(body).transpose()?;
    let method = arguments
        .method
        .clone()
        .unwrap_or_else(|| requests_file::method_for(body.as_ref()));
    let request = |url: &Url| Request {
        method: method.clone(),
        path: url.path.clone(),
        headers: Vec::new(),
        body: body.clone().unwrap_or_default(),
        weight: url.weight,
        expected: None,
    };
    Ok(urls.iter().map(request).collect())
}

fn header(field: &str) -> Result<(String, String)> {
    let (name, value) = field
        .split_once(':')
        .with_context(|| format!("--header {field:?}: write it as 'Name: value'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn body(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix('@') {
        Some(file) => std::fs::read(file).with_context(|| format!("--body: can't read {file}")),
        None => Ok(text.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests;
