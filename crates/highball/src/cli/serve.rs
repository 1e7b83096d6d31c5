//! `serve`: start-up, serving, shutdown, in this order. Each of them is another file's.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use command_line::ApplicationArguments;
use front::log::AccessLog;
use tokio::task::{JoinSet, spawn_local};

use crate::changes::active_threads::follow_thread_advice;
use crate::changes::autoscale::scale_by_load;
use crate::setup::Setup;
use crate::shutdown::Shutdown;
use crate::startup::opening::{Opened, StartupContext};
use crate::startup::{self, Started};
use crate::system::signals::Stop;

/// How long threads that write files for slow clients may take to end.
const FILE_THREADS_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves an application until a stop is requested.
///
/// # Errors
/// Why it cannot be served.
pub(crate) fn run(arguments: ApplicationArguments) -> Result<()> {
    let mut context = StartupContext::of_this_process()?;
    let served = start(arguments, &mut context);
    if let Err(error) = &served {
        context.refuse(error);
    }
    served
}

fn start(arguments: ApplicationArguments, context: &mut StartupContext) -> Result<()> {
    let mut setup = Setup::load(arguments)?.share();
    let opened = Opened::open(&mut setup, context)?;
    // A thread keeps the rights that it was started with, so not before they have been given up.
    let returns_memory = tikv_jemalloc_ctl::background_thread::write(true);
    returns_memory.context("cannot start the allocator's thread")?;
    let log = AccessLog::open(&setup.settings, &setup.dir);
    let log = Rc::new(log.context("cannot open the log")?);
    front::panic_hook::end_server(&log);
    let runtime = front::runtime::build().context("cannot start the runtime")?;
    let result = runtime.block_on(async {
        if let Some(started) = startup::start(setup, log, context, opened).await? {
            serve(started).await;
        }
        Ok(())
    });
    runtime.shutdown_timeout(FILE_THREADS_TIMEOUT);
    result
}

/// Serves until a stop is requested or another server has taken over, and shuts down.
async fn serve(started: Started) {
    let Started {
        server,
        mut stops,
        changes,
        restart_files,
        named,
        // Removed when this function returns.
        pid_file: _pid_file,
    } = started;
    let announced = {
        let (manager, status) = (Rc::clone(&server.manager), server.status());
        spawn_local(async move {
            // Before that the service manager listens to the server that is being replaced. The sender is only dropped.
            let _ = named.await;
            manager.ready(&status).await;
            manager.feed_watchdog().await;
        })
    };
    let mut watched = JoinSet::new();
    for (file, hosted) in restart_files.into_iter().zip(&server.hosted) {
        let (server, hosted) = (Rc::clone(&server), Rc::clone(hosted));
        watched.spawn_local(async move { file.watch(&server.queue, &hosted.housekeeping).await });
    }
    let mut idle = JoinSet::new();
    for (number, hosted) in (0..).zip(&server.hosted) {
        let threads = Rc::clone(hosted);
        idle.spawn_local(async move { follow_thread_advice(&threads).await });
        let (server, hosted) = (Rc::clone(&server), Rc::clone(hosted));
        idle.spawn_local(async move { hosted.stop_when_idle(&server.front, number).await });
    }
    for hosted in &server.hosted {
        let (server, hosted) = (Rc::clone(&server), Rc::clone(hosted));
        watched.spawn_local(async move { scale_by_load(&hosted, &server.front).await });
    }
    let mut changed = {
        let queue = Rc::clone(&server.queue);
        spawn_local(async move { changes.run(&queue).await })
    };

    let (stop, successor) = tokio::select! {
        // Once there is a successor, it must get the connections.
        biased;
        Ok(successor) = &mut changed => (Stop::Drain, Some(successor)),
        stop = stops.next() => (stop, None),
    };
    changed.abort();
    // A successor looks at the file itself.
    watched.abort_all();
    if successor.is_some() {
        // The service manager listens to another process now.
        announced.abort();
    }
    let shutdown = Shutdown {
        server,
        successor,
        idle,
    };
    shutdown.run(stop, &mut stops).await;
}
