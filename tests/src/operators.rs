//! Operators' addresses of a running server: where they are, and requests to them. It starts nothing.

use test_support::{Client, Response, Server};

/// A token of `admin_tokens_file`.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The address that a setting names, as the log of a server shows it.
pub fn address(server: &Server, setting: &str) -> String {
    let wanted = format!("({setting})");
    let line = server.log().wait(|line| line.contains(&wanted));
    let (_, rest) = line.split_once("http://").expect("an address");
    rest.split(' ').next().expect("a word").to_owned()
}

/// Sends a request with a token.
pub fn ask(address: &str, method: &str, path: &str, body: &str) -> Response {
    let length = body.len();
    let mut client = Client::connect(address);
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    client.response_to(method)
}

/// Sends a GET without a token.
pub fn get(address: &str, path: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    client.response()
}
