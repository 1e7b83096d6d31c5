//! The thread of an edge: its runtime, and the commands that it carries out. It decides nothing.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::Builder;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Command, EdgeParts, EdgeThread, Published};
use crate::edge::{Edge, EdgeSeed};
use crate::messages::Dispatch;
use crate::net::reception::Reception;
use crate::panics;
use crate::remote::{self, EdgeEnd};
use crate::runtime;

/// Commands that are taken at once.
const BATCH: usize = 64;

/// Starts a thread with an edge, beside this edge of the dispatcher's thread. Blocks until it runs.
pub(super) fn start(
    number: usize,
    beside: &Edge,
    intake: &Rc<dyn Dispatch>,
) -> io::Result<EdgeThread> {
    let published = Arc::new(Published::default());
    let seed = beside.seed();
    let (end, dispatcher_end) = remote::connect();
    let (commands, received) = unbounded_channel();
    let (sender, started) = mpsc::channel();
    let its_own = Arc::clone(&published);
    Builder::new()
        .name(format!("highball-edge-{number}"))
        .spawn(move || {
            let result = run(seed, end, received, &its_own, &sender);
            // Once it runs, nobody asks whether it could.
            let _ = sender.send(result);
        })?;
    let ended = || io::Error::other("the thread of an edge has ended");
    started.recv().map_err(|_| ended())??;
    tokio::task::spawn_local(dispatcher_end.serve(Rc::clone(intake)));
    Ok(EdgeThread {
        commands,
        published,
        ended: Arc::clone(&beside.connections.ended),
    })
}

/// Runs the edge until no command can come any more. Sends when it can take the first one.
fn run(
    seed: EdgeSeed,
    end: EdgeEnd,
    mut commands: UnboundedReceiver<Command>,
    published: &Arc<Published>,
    started: &mpsc::Sender<io::Result<()>>,
) -> io::Result<()> {
    panics::guard_thread();
    let runtime = runtime::build()?;
    runtime.block_on(async {
        let edge = seed.grow(end)?;
        let (ticking, numbers) = (Rc::clone(&edge), Arc::clone(published));
        tokio::task::spawn_local(async move {
            let publish = || {
                let resting = ticking.connections.resting();
                numbers.resting.store(resting, Ordering::Relaxed);
            };
            ticking.run_ticks(publish).await;
        });
        let reception = Reception::new(&edge);
        let parts = EdgeParts { edge, reception };
        let _ = started.send(Ok(()));
        let mut batch = Vec::with_capacity(BATCH);
        while commands.recv_many(&mut batch, BATCH).await > 0 {
            batch.drain(..).for_each(|command| command(&parts));
        }
        Ok(())
    })
}
