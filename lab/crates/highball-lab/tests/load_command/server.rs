//! A small server that answers every request over kept connections and remembers what it was asked. It knows
//! `/login` (sets a cookie), `/missing` (404) and `/drop` (closes without an answer).

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Request line and fields, one a line.
    pub(crate) head: String,
    /// Its body.
    pub(crate) body: String,
}

/// All requests so far.
pub(crate) type Log = Arc<Mutex<Vec<Asked>>>;

/// Serves at a free port, for as long as the test lasts.
pub(crate) fn serve() -> (SocketAddr, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let log = Log::default();
    let own = Arc::clone(&log);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let log = Arc::clone(&own);
            thread::spawn(move || answer(stream.try_clone().unwrap(), stream, &log));
        }
    });
    (address, log)
}

/// Serves at a UNIX socket.
pub(crate) fn serve_unix(path: &Path) -> Log {
    let listener = UnixListener::bind(path).unwrap();
    let log = Log::default();
    let own = Arc::clone(&log);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let log = Arc::clone(&own);
            thread::spawn(move || answer(stream.try_clone().unwrap(), stream, &log));
        }
    });
    log
}

fn answer(read: impl Read, mut write: impl Write, log: &Log) {
    let mut read = BufReader::new(read);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !matches!(read.read_line(&mut head), Ok(1..)) {
                return;
            }
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        if read.read_exact(&mut body).is_err() {
            return;
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let close = head.contains("Connection: close");
        log.lock().unwrap().push(Asked {
            head,
            body: String::from_utf8_lossy(&body).into_owned(),
        });
        let (status, cookie) = match path.as_str() {
            "/drop" => return,
            "/missing" => ("404 Not Found", ""),
            "/login" => ("200 OK", "Set-Cookie: session=7; Path=/\r\n"),
            _ => ("200 OK", ""),
        };
        let response =
            format!("HTTP/1.1 {status}\r\nServer: small\r\n{cookie}Content-Length: 5\r\n\r\nhello");
        if write.write_all(response.as_bytes()).is_err() || close {
            return;
        }
    }
}
