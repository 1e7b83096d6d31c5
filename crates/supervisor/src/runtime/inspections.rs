//! Questions of operators to workers: a profile, backtraces, figures. It bounds how many a worker has and how long an answer
//! may be, and reads none.

use std::time::Duration;

use exchange::control::{Inspect, ToWorker};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Longest profile.
pub const MAX_PROFILE: Duration = Duration::from_secs(300);
/// How long a worker may take to answer; a profile's own time comes before that.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Most questions that a worker has at once.
const MAX_INSPECTIONS: usize = 8;
/// Longest answer in bytes.
const MAX_INSPECTION_BYTES: usize = 8 * 1024 * 1024;

/// Why a worker has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// There is no such worker.
    #[error("is not running; `highball status` lists the workers")]
    NoWorker,
    /// A profile is being taken.
    #[error("is being profiled already; try again when that has ended")]
    Profiled,
    /// It has enough questions.
    #[error("has {MAX_INSPECTIONS} questions to answer already; try again later")]
    Busy,
    /// It reads no messages.
    #[error("reads no messages: it is stopped, or native code holds Ruby's lock")]
    Full,
    /// It ended.
    #[error("ended before it had answered")]
    Ended,
    /// It said nothing.
    #[error("has not answered in time: it is stopped, or native code holds Ruby's lock")]
    Silent,
    /// It said too much.
    #[error("sent an answer of more than {MAX_INSPECTION_BYTES} bytes, which was discarded")]
    TooLong,
}

/// An answer, whole.
pub(crate) type Answer = Result<String, InspectError>;

/// A question without its whole answer.
#[derive(Debug)]
struct Waiting {
    id: u32,
    is_profile: bool,
    until: Instant,
    text: String,
    /// None once the answer was given, or why there is none.
    done: Option<oneshot::Sender<Answer>>,
}

/// The questions to one life of a worker.
#[derive(Debug, Default)]
pub(crate) struct Inspections {
    waiting: Vec<Waiting>,
    last_id: u32,
}

impl Inspections {
    /// Takes a question in. Returns the message for the worker, and where the answer comes.
    pub(crate) fn begin(
        &mut self,
        what: Inspect,
        now: Instant,
    ) -> Result<(ToWorker, oneshot::Receiver<Answer>), InspectError> {
        self.waiting.retain(|one| one.until > now);
        let is_profile = matches!(what, Inspect::Profile { .. });
        if is_profile && self.waiting.iter().any(|one| one.is_profile) {
            return Err(InspectError::Profiled);
        }
        if self.waiting.len() >= MAX_INSPECTIONS {
            return Err(InspectError::Busy);
        }
        self.last_id = self.last_id.wrapping_add(1);
        let (id, (done, answer)) = (self.last_id, oneshot::channel());
        self.waiting.push(Waiting {
            id,
            is_profile,
            until: now + time_for(what),
            text: String::new(),
            done: Some(done),
        });
        Ok((ToWorker::Inspect { id, what }, answer))
    }

    /// Takes a piece of an answer. One that nobody waits for is discarded.
    pub(crate) fn received(&mut self, id: u32, text: &str, last: bool) {
        let Some(at) = self.waiting.iter().position(|one| one.id == id) else {
            return;
        };
        let one = &mut self.waiting[at];
        let fits = one.text.len() + text.len() <= MAX_INSPECTION_BYTES;
        match fits && one.done.is_some() {
            true => one.text.push_str(text),
            false => one.text = String::new(),
        }
        let answer = match fits {
            true if !last => return,
            true => Ok(std::mem::take(&mut one.text)),
            false => Err(InspectError::TooLong),
        };
        if let Some(done) = one.done.take() {
            // Who asked may have left.
            let _ = done.send(answer);
        }
        if last {
            self.waiting.remove(at);
        }
    }

    /// Whether an answer is waited for, such as a profile that is being taken.
    pub(crate) fn are_open(&self, now: Instant) -> bool {
        self.waiting.iter().any(|one| one.until > now)
    }

    /// The question did not reach the worker.
    pub(crate) fn cancel(&mut self) {
        self.waiting.pop();
    }
}

/// The time that an answer has.
pub(crate) fn time_for(what: Inspect) -> Duration {
    match what {
        Inspect::Profile { milliseconds, .. } => {
            Duration::from_millis(milliseconds.into()).min(MAX_PROFILE) + INSPECTION_TIMEOUT
        }
        Inspect::Backtraces | Inspect::Gc => INSPECTION_TIMEOUT,
    }
}

#[cfg(test)]
mod tests {
    use exchange::control::ProfileMode;

    use super::*;

    const PROFILE: Inspect = Inspect::Profile {
        milliseconds: 1000,
        mode: ProfileMode::Cpu,
    };

    fn id(message: &ToWorker) -> u32 {
        match message {
            ToWorker::Inspect { id, .. } => *id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_in_pieces_is_put_together() {
        let (mut all, now) = (Inspections::default(), Instant::now());
        let (first, mut one) = all.begin(Inspect::Gc, now).unwrap();
        let (second, mut other) = all.begin(Inspect::Backtraces, now).unwrap();
        all.received(id(&first), "a", false);
        all.received(id(&second), "x", true);
        all.received(id(&first), "b", true);
        all.received(id(&first), "c", true);
        all.received(77, "y", true);
        assert_eq!(one.try_recv().unwrap(), Ok("ab".to_owned()));
        assert_eq!(other.try_recv().unwrap(), Ok("x".to_owned()));
        assert!(all.waiting.is_empty());
    }

    #[test]
    fn a_second_profile_of_a_worker_is_refused() {
        let (mut all, now) = (Inspections::default(), Instant::now());
        let (first, answer) = all.begin(PROFILE, now).unwrap();
        // Who asked has left, and the worker samples on.
        drop(answer);
        assert_eq!(all.begin(PROFILE, now).unwrap_err(), InspectError::Profiled);
        assert!(all.begin(Inspect::Gc, now).is_ok());
        all.received(id(&first), "", true);
        assert!(all.begin(PROFILE, now).is_ok());
        // A worker that never answers can be asked again.
        assert!(all.begin(PROFILE, now + Duration::from_secs(12)).is_ok());
    }

    #[test]
    fn a_profile_is_open_until_it_is_answered_or_given_up() {
        let (mut all, now) = (Inspections::default(), Instant::now());
        assert!(!all.are_open(now));
        let (first, _answer) = all.begin(PROFILE, now).unwrap();
        assert!(all.are_open(now) && !all.are_open(now + Duration::from_secs(12)));
        all.received(id(&first), "", true);
        assert!(!all.are_open(now));
    }

    #[test]
    fn a_worker_has_a_bounded_number_of_questions() {
        let (mut all, now) = (Inspections::default(), Instant::now());
        let answers: Vec<_> = (0..MAX_INSPECTIONS)
            .map(|_| all.begin(Inspect::Gc, now).unwrap())
            .collect();
        assert_eq!(all.begin(Inspect::Gc, now).unwrap_err(), InspectError::Busy);
        assert_eq!(answers.len(), MAX_INSPECTIONS);
    }

    #[test]
    fn an_answer_that_is_too_long_is_discarded() {
        let (mut all, now) = (Inspections::default(), Instant::now());
        let (message, mut answer) = all.begin(Inspect::Gc, now).unwrap();
        let piece = "x".repeat(1024 * 1024);
        for _ in 0..20 {
            all.received(id(&message), &piece, false);
            assert!(all.waiting[0].text.len() <= MAX_INSPECTION_BYTES);
        }
        assert_eq!(answer.try_recv().unwrap(), Err(InspectError::TooLong));
        assert!(all.waiting[0].text.is_empty());
    }
}
