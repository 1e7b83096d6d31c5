//! How messages too long for one datagram are shortened: long texts are cut and long lists end early,
//! each with a note of how much is missing. Numbers and paths are never touched.

use super::{FromTemplate, FromWorker, Message, ToTemplate, ToWorker};

impl Message for ToTemplate {
    fn shorten(&mut self, _budget: usize) {
        if let ToTemplate::Start(start) = self {
            // Without them the application loads all the same.
            start.frequent_paths = start.frequent_paths.take().map(|_| Vec::new());
        }
    }
}

impl Message for ToWorker {}

impl Message for FromTemplate {
    fn shorten(&mut self, budget: usize) {
        match self {
            FromTemplate::BootFailed {
                class,
                message,
                backtrace,
            } => {
                cut(class, budget / 16);
                cut(message, budget / 4);
                shorten_backtrace(backtrace, budget / 2);
            }
            FromTemplate::Booted {
                held,
                gems,
                filter_parameters,
                runtime,
                ..
            } => {
                // A handful, of which only the reasons may be long.
                for option in runtime {
                    cut(&mut option.reason, budget / 64);
                }
                for list in [held, gems, filter_parameters] {
                    shorten_list(list, budget / 4, |sentence| {
                        cut(sentence, budget / 32);
                        sentence.len() + 8
                    });
                }
            }
            FromTemplate::Donor { lost } => shorten_list(lost, budget, |sentence| {
                cut(sentence, budget / 32);
                sentence.len() + 8
            }),
            FromTemplate::NotForked { reason, .. } => cut(reason, budget),
            FromTemplate::Exited { status, .. } => cut(status, budget),
            FromTemplate::Forked { .. } | FromTemplate::Counts { .. } => {}
        }
    }
}

impl Message for FromWorker {
    fn shorten(&mut self, budget: usize) {
        match self {
            FromWorker::Error { message } => cut(message, budget),
            FromWorker::Backtrace { backtrace, .. } => shorten_backtrace(backtrace, budget),
            FromWorker::Ready { .. }
            | FromWorker::Hijack { .. }
            | FromWorker::Body { .. }
            | FromWorker::Purge { .. }
            | FromWorker::Inspected { .. }
            | FromWorker::Counts { .. } => {}
        }
    }
}

fn shorten_backtrace(backtrace: &mut Vec<String>, budget: usize) {
    shorten_list(backtrace, budget, |line| {
        cut(line, budget / 8);
        line.len()
    });
}

/// An item that can stand for those which were left out of a list.
trait Note {
    fn note(missing: usize) -> Self;
}

impl Note for String {
    fn note(missing: usize) -> Self {
        format!("... ({missing} more lines)")
    }
}

/// Cuts `text` at a character's border to at most `limit` bytes and a note.
fn cut(text: &mut String, limit: usize) {
    if text.len() <= limit {
        return;
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let missing = text.len() - end;
    text.truncate(end);
    text.push_str(&format!("... ({missing} more bytes)"));
}

/// Keeps the first items, whose `size` after shortening adds up to at most `limit`.
fn shorten_list<T: Note>(list: &mut Vec<T>, limit: usize, size: impl Fn(&mut T) -> usize) {
    let mut total = 0;
    let mut kept = 0;
    for item in list.iter_mut() {
        total += size(item);
        if total > limit {
            break;
        }
        kept += 1;
    }
    let missing = list.len() - kept;
    if missing > 0 {
        list.truncate(kept);
        list.push(T::note(missing));
    }
}
