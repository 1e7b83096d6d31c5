//! The thread that wakes 99 times a second while a profile is taken. It is none of Ruby's, receives no signal, and ends with
//! the profile. It never calls Ruby but to trigger the job.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::threads::{Activity, PERIOD_NS, Threads, own_cpu_ns};
use super::trigger::Trigger;

/// How long a thread that is due is watched, to see whether it computes: at first for a moment, for it may have waited only
/// for the processor that the ticker has; then on a busy machine until it gets one. In all less than a period.
const PAUSES_US: [u64; 5] = [200, 2000, 2000, 2000, 2000];

/// The running thread.
pub(crate) struct Ticker {
    /// Dropping it ends the thread.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Ticker {
    /// Starts it.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(threads: Arc<Threads>, trigger: Trigger) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let period = Duration::from_nanos(PERIOD_NS as u64);
            let mut next = Instant::now() + period;
            loop {
                let now = Instant::now();
                // Late by more than a period: what was missed is in the CPU time of the next one.
                next = next.max(now);
                if stopped.recv_timeout(next - now) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                next += period;
                if threads.any_due() && computes(&threads) {
                    trigger.fire();
                }
                threads.ticker_ns.store(own_cpu_ns() as u64, Relaxed);
            }
        };
        // The kernel cuts names after 15 bytes.
        let builder = Builder::new().name("highball-sample".to_owned());
        let thread = without_signals(|| builder.spawn(run))?;
        Ok(Self { stop, thread })
    }

    /// Ends it, and waits until it has ended: the time that it needs to be woken.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // It does not panic.
        let _ = self.thread.join();
    }
}

/// Whether a thread that is due computes, or begins to within a period.
fn computes(threads: &Threads) -> bool {
    for pause in PAUSES_US {
        thread::sleep(Duration::from_micros(pause));
        match threads.look_again() {
            Activity::Computes => return true,
            Activity::WaitsForProcessor => {}
            Activity::Sleeps => return false,
        }
    }
    false
}

/// Calls the function with all signals blocked, which threads inherit.
fn without_signals<T>(function: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets live; `before` is written before it is read, for a mask that is set has one before.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let result = function();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        result
    }
}
