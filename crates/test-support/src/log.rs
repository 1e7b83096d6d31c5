//! The lines that a process wrote, collected as they come, for tests that wait for one of them.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use crate::TEST_TIMEOUT;

/// The lines of a process, stdout and stderr together. A clone reads the same lines.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    open: usize,
}

impl Log {
    /// Collects the lines of one more output of the process.
    pub fn follow(&self, output: impl Read + Send + 'static) {
        self.state().open += 1;
        let log = self.clone();
        thread::spawn(move || {
            // Split by bytes: what an application prints need not be UTF-8.
            for line in BufReader::new(output).split(b'\n') {
                let Ok(line) = line else { break };
                log.state()
                    .lines
                    .push(String::from_utf8_lossy(&line).into_owned());
                log.0.1.notify_all();
            }
            log.state().open -= 1;
            log.0.1.notify_all();
        });
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.state().lines.clone()
    }

    /// The number of lines so far: a place from which [`Log::wait_after`] looks.
    pub fn len(&self) -> usize {
        self.state().lines.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for a line that `wanted` accepts, among all lines, and gives it back.
    ///
    /// # Panics
    /// When there is none within [`TEST_TIMEOUT`], or the process closed its outputs without it.
    #[track_caller]
    pub fn wait(&self, wanted: impl Fn(&str) -> bool) -> String {
        self.wait_after(0, wanted)
    }

    /// The same, among the lines from number `start` on.
    ///
    /// # Panics
    /// As [`Log::wait`].
    #[track_caller]
    pub fn wait_after(&self, start: usize, wanted: impl Fn(&str) -> bool) -> String {
        match self.try_wait_after(start, wanted) {
            Some(line) => line,
            None => panic!("no such line in the log:\n{}", self.text()),
        }
    }

    /// The same, without a failure.
    pub fn try_wait_after(&self, start: usize, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut state = self.state();
        let mut next = start;
        loop {
            while next < state.lines.len() {
                if wanted(&state.lines[next]) {
                    return Some(state.lines[next].clone());
                }
                next += 1;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.open == 0 || left.is_zero() {
                return None;
            }
            state = (self.0.1)
                .wait_timeout(state, left)
                .expect("no reader of the log panics")
                .0;
        }
    }

    /// Waits until every writer closed its end: all processes that inherited the outputs are gone.
    ///
    /// # Panics
    /// When one holds it open beyond [`TEST_TIMEOUT`].
    #[track_caller]
    pub fn wait_closed(&self) {
        let waited = (self.0.1)
            .wait_timeout_while(self.state(), TEST_TIMEOUT, |state| state.open > 0)
            .expect("no reader of the log panics");
        assert!(
            !waited.1.timed_out(),
            "a process still holds the server's stdout or stderr open"
        );
    }

    /// The whole log as one text.
    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().expect("no reader of the log panics")
    }
}
