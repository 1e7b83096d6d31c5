//! A server of the page on 127.0.0.1, with the header fields that the real one sends. It has no key and no limits: it is
//! for the browser of a test alone.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use dashboard::{Alone, HEADERS, Model, View, live, page, resource};

use crate::fixtures;

/// What the server answers; written by the test, read by the server's thread.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) model: Model,
    /// The status of answers that are to fail.
    pub(crate) failure: Option<&'static str>,
    /// Whether the script is missing.
    pub(crate) no_script: bool,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) shared: Arc<Mutex<Shared>>,
    port: u16,
}

impl Server {
    /// Starts one. Its thread ends with the test's process.
    pub(crate) fn start(model: Model) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let shared = Arc::new(Mutex::new(Shared {
            model,
            failure: None,
            no_script: false,
        }));
        let answered = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answered = Arc::clone(&answered);
                // The browser opens connections ahead.
                thread::spawn(move || answer(stream, &answered));
            }
        });
        Self { shared, port }
    }

    /// The address of the page with a query.
    pub(crate) fn address(&self, query: &str) -> String {
        format!("http://127.0.0.1:{}/dashboard?{query}", self.port)
    }

    /// Changes what it answers.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Shared)) {
        change(&mut self.shared.lock().expect("no thread panics with it"));
    }
}

/// Answers one request. A browser that has left is no error.
fn answer(mut stream: TcpStream, shared: &Mutex<Shared>) {
    let mut lines = BufReader::new(&stream).lines();
    let Some(Ok(first)) = lines.next() else {
        return;
    };
    for line in lines {
        if line.map_or(true, |line| line.is_empty()) {
            break;
        }
    }
    let target = first.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (status, kind, body) = content(path, query, shared);
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    head += &format!("content-length: {}\r\n", body.len());
    for (name, value) in HEADERS {
        head += &format!("{name}: {value}\r\n");
    }
    let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
}

fn content(
    path: &str,
    query: &str,
    shared: &Mutex<Shared>,
) -> (&'static str, &'static str, String) {
    let shared = shared.lock().expect("no thread panics with it");
    let view = View::parse(query);
    let model = match &view.alone {
        Some(Alone::Exception(_)) => fixtures::opened_exception(),
        Some(Alone::Slow(_)) => fixtures::opened_slow(),
        None => shared.model.clone(),
    };
    if let Some(status) = shared.failure {
        return (status, "text/plain", status.to_owned());
    }
    let html = "text/html; charset=utf-8";
    match path.strip_prefix("/dashboard") {
        Some("") => ("200 OK", html, page(&model, &view).expect("a page")),
        Some("/live") => ("200 OK", html, live(&model, &view).expect("its live part")),
        Some("/flame.svg") => ("200 OK", "image/svg+xml", FLAME.to_owned()),
        Some("/page.js") if shared.no_script => ("200 OK", "text/javascript", String::new()),
        Some(name) => match resource(name.trim_start_matches('/')) {
            Some(found) => ("200 OK", found.content_type, found.body.to_owned()),
            None => ("404 Not Found", "text/plain", String::new()),
        },
        None => ("404 Not Found", "text/plain", String::new()),
    }
}

/// A flame graph in small.
const FLAME: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 60\" width=\"800\" height=\"60\">\
    <rect width=\"800\" height=\"18\" fill=\"#c94f0a\"/><rect y=\"20\" width=\"720\" height=\"18\" fill=\"#e08a3c\"/>\
    <rect y=\"40\" width=\"680\" height=\"18\" fill=\"#9a6d00\"/></svg>";
