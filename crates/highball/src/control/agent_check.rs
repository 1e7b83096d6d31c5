//! HAProxy's agent-check: each connection gets one line that says whether the server can serve and which weight it should have.
//! It takes nothing from a client, and changes nothing.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

/// The most clients at once. HAProxy connects once in `agent-inter`.
const MAX_AGENT_CLIENTS: usize = 16;
/// How long a client may take to read its line and to close.
const AGENT_CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// The most that is read of what a client sends (`agent-send`), in bytes.
const MAX_AGENT_INPUT_BYTES: u64 = 256;
/// Pause after a failure to accept, such as no descriptor left.
const AGENT_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the saturation is looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// The part of the mean that each look at it replaces: the mean follows within about two seconds.
const SAMPLE_SHARE: f64 = 0.125;

/// What clients are told of.
pub(crate) struct AgentSource {
    /// Whether the server can serve.
    pub(crate) state: Box<dyn Fn() -> AgentState>,
    /// The saturation now.
    pub(crate) saturation: Box<dyn Fn() -> f64>,
}

/// Whether the server can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentState {
    /// It can.
    Up,
    /// It can, and is to stop.
    Leaving,
    /// It cannot, and why.
    Down(&'static str),
}

/// Answers the clients of a listener until it is dropped.
pub(crate) async fn serve(listener: Rc<TcpListener>, source: Rc<AgentSource>) {
    let mean = Rc::new(Cell::new(0.0));
    let clients: Rc<()> = Rc::default();
    let answers = async {
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                sleep(AGENT_ACCEPT_PAUSE).await;
                continue;
            };
            // Every client that is there has one count; one that finds no place is closed.
            if Rc::strong_count(&clients) > MAX_AGENT_CLIENTS {
                continue;
            }
            let (place, line) = (Rc::clone(&clients), line((source.state)(), mean.get()));
            spawn_local(async move {
                // A client that is late or leaves is its own business.
                let _ = timeout(AGENT_CLIENT_TIMEOUT, answer(socket, &line)).await;
                drop(place);
            });
        }
    };
    let samples = async {
        loop {
            let sample = (source.saturation)();
            mean.set(mean.get() + (sample - mean.get()) * SAMPLE_SHARE);
            sleep(SAMPLE_INTERVAL).await;
        }
    };
    tokio::join!(answers, samples);
}

/// Sends the line. What the client has sent is read before the end, for a socket that is closed with bytes unread takes the line
/// back.
async fn answer(mut socket: TcpStream, line: &str) -> io::Result<()> {
    socket.write_all(line.as_bytes()).await?;
    socket.shutdown().await?;
    let mut input = socket.take(MAX_AGENT_INPUT_BYTES);
    while input.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}

/// The line, with a mean of the saturation.
fn line(state: AgentState, mean: f64) -> String {
    match state {
        AgentState::Up => format!("up {}%\n", weight(mean)),
        // A weight of 0 is what `drain` does, but it passes when the next server says another one.
        AgentState::Leaving => "up 0%\n".to_owned(),
        AgentState::Down(reason) => format!("down #{reason}\n"),
    }
}

/// The weight, in percent: from 100 for a server that idles to 10 for one whose threads are all busy, and less where requests
/// wait. Never 0: that is for a server that leaves.
fn weight(saturation: f64) -> u8 {
    let weight = match saturation {
        ..=1.0 => 100.0 - 90.0 * saturation,
        _ => 10.0 / saturation,
    };
    weight.round().clamp(1.0, 100.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_falls_with_the_saturation_and_is_never_nothing() {
        let weights = [0.0, 0.5, 1.0, 2.0, 1e9, f64::INFINITY].map(weight);
        assert_eq!(weights, [100, 55, 10, 5, 1, 1]);
    }

    #[test]
    fn a_server_without_a_worker_is_down_and_one_that_stops_has_no_weight() {
        assert_eq!(
            line(AgentState::Down("no worker can serve"), 0.5),
            "down #no worker can serve\n"
        );
        assert_eq!(line(AgentState::Up, 0.5), "up 55%\n");
        assert_eq!(line(AgentState::Leaving, 0.5), "up 0%\n");
    }
}
