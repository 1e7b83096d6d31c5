//! What a worker tells of itself, as lines of text: a profile, the backtraces of its threads, figures. All of it comes from
//! other people's code and is checked.

use serde::{Deserialize, Serialize};

use crate::frame::{Frame, printable};
use crate::tree::{Limits, StackTree};

/// Most threads of a worker that are shown.
const MAX_THREADS: usize = 1000;
/// Most figures of a worker, and the longest name of one in bytes.
const MAX_FIGURES: usize = 100;
const MAX_FIGURE_NAME_BYTES: usize = 64;
/// Most bytes of a thread's name.
const MAX_THREAD_NAME_BYTES: usize = 128;

/// Why a report cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the worker's report cannot be read")]
pub struct ReportError {
    /// The line, from 1.
    pub line: usize,
}

/// What a worker's threads did, as its sampler saw it.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Where its threads were while they ran requests, or computed.
    pub tree: StackTree,
    /// Samples of threads that waited for a request.
    pub idle: u32,
    /// Samples that had no room in the worker's memory.
    pub dropped: u32,
    /// How long it sampled, in microseconds.
    pub wall_us: u64,
    /// CPU time that sampling took, in microseconds.
    pub cpu_us: u64,
    /// CPU time of its threads, in microseconds; 0 where time as it passes was counted.
    pub used_us: u64,
    /// How many stacks were read. One stands for several samples where none could be read for a while.
    pub taken: u32,
}

impl Profile {
    /// Reads a report: a line `profile IDLE DROPPED WALL CPU USED TAKEN`, then lines `f BACKTRACE-LINE` and `n PARENT FRAME SAMPLES`.
    /// Frames count from 0, nodes from 1; the parent 0 stands for none. A name is there before it is used.
    ///
    /// # Errors
    /// [`ReportError`] with the first line that has another form.
    pub fn read(report: &str) -> Result<Self, ReportError> {
        let mut profile = Self::default();
        let mut frames = Vec::new();
        // The tree's node for each of the report's: none where there was no room for it.
        let mut nodes: Vec<Option<u32>> = Vec::new();
        for (at, line) in report.lines().enumerate() {
            let wrong = ReportError { line: at + 1 };
            match line.split_once(' ').unwrap_or((line, "")) {
                ("profile", figures) if at == 0 => {
                    let [idle, dropped, wall_us, cpu_us, used_us, taken] =
                        numbers(figures).ok_or(wrong)?;
                    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
                    (profile.idle, profile.dropped) = (count(idle), count(dropped));
                    (profile.wall_us, profile.cpu_us) = (wall_us, cpu_us);
                    (profile.used_us, profile.taken) = (used_us, count(taken));
                }
                ("f", text) => frames.push(Frame::parse(text)),
                ("n", figures) => {
                    let node = profile.read_node(figures, &frames, &nodes);
                    nodes.push(node.ok_or(wrong)?);
                }
                _ => return Err(wrong),
            }
        }
        match report.starts_with("profile ") {
            true => Ok(profile),
            false => Err(ReportError { line: 1 }),
        }
    }

    /// Reads a node; the inner `None` is one that the tree has no room for. Its samples go to the nearest caller.
    fn read_node(
        &mut self,
        figures: &str,
        frames: &[Frame],
        nodes: &[Option<u32>],
    ) -> Option<Option<u32>> {
        let [parent, frame, own] = numbers(figures)?;
        let frame = frames.get(usize::try_from(frame).ok()?)?.clone();
        let own = u32::try_from(own).ok()?;
        let parent = match usize::try_from(parent).ok()?.checked_sub(1) {
            None => None,
            Some(at) => *nodes.get(at)?,
        };
        if parent.is_none() && own == 0 && frame.is_highballs_own() {
            return Some(None);
        }
        let node = self.tree.below(parent, frame, Limits::PROFILE).or(parent);
        if let (Some(node), 1..) = (node, own) {
            self.tree.count(node, own);
        }
        Some(node)
    }

    /// The share of one core that sampling took.
    pub fn overhead(&self) -> f64 {
        self.cpu_us as f64 / self.wall_us.max(1) as f64
    }
}

/// A thread of a worker, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStack {
    /// Its status and its name.
    pub name: String,
    /// Innermost frame first.
    pub frames: Vec<Frame>,
}

/// Reads the threads of a report: a line `t NAME` for each, then a line `l BACKTRACE-LINE` for each of its frames.
///
/// # Errors
/// [`ReportError`] with the first line that has another form.
pub fn threads(report: &str) -> Result<Vec<ThreadStack>, ReportError> {
    let mut threads: Vec<ThreadStack> = Vec::new();
    for (at, line) in report.lines().enumerate() {
        let room = threads.len() < MAX_THREADS;
        match (
            line.split_once(' ').unwrap_or((line, "")),
            threads.last_mut(),
        ) {
            (("t", name), _) if room => threads.push(ThreadStack {
                name: printable(name, MAX_THREAD_NAME_BYTES),
                frames: Vec::new(),
            }),
            (("l", text), Some(thread)) => thread.frames.push(Frame::parse(text)),
            _ => return Err(ReportError { line: at + 1 }),
        }
    }
    Ok(threads)
}

/// Reads the figures of a report, a line `NAME NUMBER` each.
///
/// # Errors
/// [`ReportError`] with the first line that has another form.
pub fn figures(report: &str) -> Result<Vec<(String, u64)>, ReportError> {
    let read = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let fits = name.len() <= MAX_FIGURE_NAME_BYTES && name.bytes().all(plain);
        fits.then_some((name.to_owned(), number.parse().ok()?))
    };
    let figures = report.lines().enumerate().map(|(at, line)| {
        let wrong = ReportError { line: at + 1 };
        read(line).filter(|_| at < MAX_FIGURES).ok_or(wrong)
    });
    figures.collect()
}

/// So many numbers, each after a space.
fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut words = text.split(' ');
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    words.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_a_worker_is_read() {
        let report = "profile 7 0 1000000 20000 500000 3\nf /x/lib/highball/runner.rb:1:in `run'\nn 0 0 0\n\
                      f /a.rb:1:in `call'\nn 1 1 2\nf /a.rb:2:in `hot'\nn 2 2 5\n";
        let profile = Profile::read(report).unwrap();
        assert_eq!((profile.idle, profile.tree.samples()), (7, 7));
        assert_eq!(profile.tree.frame(1).method, "hot");
        assert_eq!(profile.tree.totals(), [7, 5]);
        assert!((profile.overhead() - 0.02).abs() < 1e-9);
    }

    #[test]
    fn a_profile_in_another_form_names_its_line() {
        for (report, line) in [
            ("", 1),
            ("f x", 1),
            ("profile 1 2 3", 1),
            ("profile 1 2 3 4 5 6 7", 1),
            ("profile 1 2 3 -4 5 6", 1),
            ("profile 1 2 3 4 5 6\nprofile 1 2 3 4 5 6", 2),
            ("profile 1 2 3 4 5 6\nn 0 0 1", 2),
            ("profile 1 2 3 4 5 6\nf x\nn 1 0 1", 3),
            ("profile 1 2 3 4 5 6\nf x\nn 0 1 1", 3),
            ("profile 1 2 3 4 5 6\nf x\nn 0 0 99999999999", 3),
            ("profile 1 2 3 4 5 6\nf x\nn 0 0 18446744073709551616", 3),
            ("profile 1 2 3 4 5 6\n\n", 2),
        ] {
            let error = Profile::read(report).err();
            assert_eq!(error, Some(ReportError { line }), "{report:?}");
        }
    }

    #[test]
    fn a_profile_beyond_the_bounds_keeps_its_samples() {
        let nodes = Limits::PROFILE.nodes + 100;
        let mut report = String::from("profile 0 0 1 1 1 1\nf x\nn 0 0 0\n");
        for number in 1..nodes {
            report += &format!("f x{number}\nn 1 {number} 1\n");
        }
        let profile = Profile::read(&report).unwrap();
        assert_eq!(profile.tree.nodes().len(), Limits::PROFILE.nodes);
        assert_eq!(profile.tree.samples() as usize, nodes - 1);
    }

    #[test]
    fn threads_and_figures_of_a_worker_are_read() {
        let stacks =
            threads("t run main\nl /a.rb:1:in `x'\nl /b.rb:2:in `y'\nt sleep \u{1b}[31m\n");
        let stacks = stacks.unwrap();
        assert_eq!(
            (stacks[0].frames.len(), &*stacks[1].name),
            (2, "sleep \u{fffd}[31m")
        );
        assert_eq!(threads("l x").unwrap_err().line, 1);
        assert_eq!(threads("t x\ny").unwrap_err().line, 2);
        let gc = figures("count 12\ntime 3\n").unwrap();
        assert_eq!(gc, [("count".to_owned(), 12), ("time".to_owned(), 3)]);
        assert_eq!(figures("count -1").unwrap_err().line, 1);
        assert_eq!(figures("a b\n").unwrap_err().line, 1);
        assert_eq!(figures(&"a 1\n".repeat(200)).unwrap_err().line, 101);
    }
}
