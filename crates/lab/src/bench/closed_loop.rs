//! A fixed number of requests over a fixed number of keep-alive connections: for measures that are taken
//! after so many requests. It never reports latency; wrk does that.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::bench::http::{exchange, get_request};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends `total` GETs of `path` over `connections` connections; gives how many were not answered with 200.
pub fn send(address: SocketAddr, path: &str, connections: usize, total: usize) -> usize {
    let taken = AtomicUsize::new(0);
    let good = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| one_client(address, path, total, &taken, &good));
        }
    });
    total - good.into_inner()
}

fn one_client(
    address: SocketAddr,
    path: &str,
    total: usize,
    taken: &AtomicUsize,
    good: &AtomicUsize,
) {
    let request = get_request(address, path);
    let mut stream = None;
    while taken.fetch_add(1, Ordering::Relaxed) < total {
        match one_request(&mut stream, address, &request) {
            Ok(200) => {
                good.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(_) => stream = None,
        }
    }
}

fn one_request(stream: &mut Option<TcpStream>, address: SocketAddr, request: &[u8]) -> Result<u16> {
    let mut open = match stream.take() {
        Some(open) => open,
        None => connect(address)?,
    };
    let response = exchange(&mut open, request)?;
    *stream = response.keep_alive.then_some(open);
    Ok(response.status)
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn exactly_so_many_requests_are_sent_and_failures_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut served = 0;
            let mut buffer = [0; 1024];
            while let Ok(1..) = stream.read(&mut buffer) {
                served += 1;
                let status = if served % 10 == 0 { "500 No" } else { "200 OK" };
                stream
                    .write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())
                    .unwrap();
            }
            served
        });
        assert_eq!(send(address, "/", 1, 50), 5);
        assert_eq!(server.join().unwrap(), 50);
    }
}
