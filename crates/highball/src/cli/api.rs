//! The commands' side of the operators' API: sends one request over a connection to a server, and reads its answer line by
//! line. The request says HTTP/1.0, so the answer is not cut into chunks and ends with the connection. It decides nothing.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control::search::no_sign_of_life;

/// The longest line of an answer in bytes. A status with thousands of workers is shorter.
const MAX_ANSWER_LINE_BYTES: u64 = 64 * 1024 * 1024;
/// The most fields of an answer's head.
const MAX_ANSWER_FIELDS: usize = 64;

/// The answer to a request, as far as it has come.
#[derive(Debug)]
pub(crate) struct ApiAnswer {
    reader: BufReader<UnixStream>,
}

/// Reads from a path of the API.
///
/// # Errors
/// The server does not answer, or refuses it.
pub(crate) fn get(connection: &UnixStream, path: &str) -> Result<ApiAnswer> {
    send(connection, &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

/// Sends JSON to a path of the API.
///
/// # Errors
/// As [`get`].
pub(crate) fn post(
    connection: &UnixStream,
    path: &str,
    body: &impl Serialize,
) -> Result<ApiAnswer> {
    let body = serde_json::to_string(body)?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    send(connection, &(head + &body))
}

fn send(mut connection: &UnixStream, request: &str) -> Result<ApiAnswer> {
    match connection.write_all(request.as_bytes()) {
        // A server that has no room for another command closes before it reads, and says so.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        result => result.map_err(|error| no_answer(&error))?,
    }
    let reader = BufReader::new(connection.try_clone()?);
    let mut answer = ApiAnswer { reader };
    let status = answer.status()?;
    if status == 200 {
        return Ok(answer);
    }
    #[derive(serde::Deserialize)]
    struct Refused {
        error: String,
    }
    match answer.json::<Refused>() {
        Ok(Some(Refused { error })) => bail!("the server refused the command: {error}"),
        _ => bail!("the server refused the command with status {status}"),
    }
}

impl ApiAnswer {
    /// Reads the head, and returns its status.
    fn status(&mut self) -> Result<u16> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if !self.line(&mut head)? {
                bail!(
                    "the server closed the connection: it has exited, or it does not answer your user"
                );
            }
        }
        let mut fields = [httparse::EMPTY_HEADER; MAX_ANSWER_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let parsed = response.parse(&head);
        parsed.context("cannot read the server's answer; it may be another version")?;
        response.code.context("the server's answer has no status")
    }

    /// Reads the next line as JSON; none at the end of the answer.
    ///
    /// # Errors
    /// The server gives no sign of life, or the line is something else.
    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let mut line = Vec::new();
        if !self.line(&mut line)? {
            return Ok(None);
        }
        let value = serde_json::from_slice(&line);
        let value = value.context("cannot read the server's answer; it may be another version");
        value.map(Some)
    }

    /// Whether a line came, which is added to `bytes`.
    fn line(&mut self, bytes: &mut Vec<u8>) -> Result<bool> {
        let mut bounded = (&mut self.reader).take(MAX_ANSWER_LINE_BYTES);
        match bounded.read_until(b'\n', bytes) {
            Ok(count) => Ok(count > 0),
            // As the server does that has not read all of the request.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(no_answer(&error)),
        }
    }
}

fn no_answer(error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => anyhow!(no_sign_of_life("the server does not answer")),
        _ => anyhow!("the server does not answer: {error}"),
    }
}
