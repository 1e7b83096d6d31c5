//! One request to a receiver that a test plays, such as a webhook: read whole, then answered. It checks nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// Takes a request with a Content-Length, and answers with this status line's rest (`204 No Content`) and no body. Returns head
/// and body; none where the sender has left.
pub fn take_request(stream: &TcpStream, status: &str) -> Option<(String, Vec<u8>)> {
    let mut input = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let mut output = stream;
    output.write_all(answer.as_bytes()).ok()?;
    Some((head, body))
}
