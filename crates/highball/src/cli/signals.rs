//! Signals that end what a command shows or waits for: what a person, a service manager and a closed window send. It ends
//! nothing itself.

use std::future::poll_fn;
use std::io;
use std::sync::mpsc::SyncSender;
use std::task::Poll;
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals.
const ENDING_SIGNALS: [fn() -> SignalKind; 3] = [
    SignalKind::interrupt,
    SignalKind::terminate,
    SignalKind::hangup,
];

/// One of them came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signalled;

/// Waits for the first of these signals on a thread of its own, and sends it. They are caught from here on.
///
/// # Errors
/// No thread or descriptor is left.
pub(super) fn watch_signals<T: From<Signalled> + Send + 'static>(
    send: SyncSender<T>,
) -> Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().build()?;
    let signals = {
        let _entered = runtime.enter();
        let signals = ENDING_SIGNALS.map(|kind| signal(kind()));
        signals.into_iter().collect::<io::Result<Vec<Signal>>>()
    };
    let mut signals = signals.context("cannot wait for signals")?;
    thread::spawn(move || {
        let came = poll_fn(|context| {
            let mut signals = signals.iter_mut();
            match signals.any(|signal| signal.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        runtime.block_on(came);
        // The command may have ended by itself.
        let _ = send.send(Signalled.into());
    });
    Ok(())
}
