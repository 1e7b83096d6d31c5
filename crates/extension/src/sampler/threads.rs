//! The threads that a profile watches, as the kernel sees them: their CPU time, and whether they run. Shared by the thread
//! that wakes 99 times a second and by those that hold the GVL. It knows nothing of Ruby, and takes no lock.

use std::fs;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed,
};

/// Samples for a second of CPU time.
const RATE: i64 = 99;
/// What a sample stands for, in nanoseconds of CPU time.
pub(crate) const PERIOD_NS: i64 = 1_000_000_000 / RATE;
/// CPU time that a thread uses between two looks at it when it computes.
const COMPUTES_NS: i64 = 50_000;
/// A job that runs so late after it was triggered tells where the thread is only if that has computed meanwhile.
const LATE_NS: i64 = 2_000_000;
/// Jobs in a row that were triggered while a thread ran and have not sampled it: it computes without the GVL.
const MISSED_JOBS: u32 = 3;

/// The CPU time of the calling thread, in nanoseconds.
pub(crate) fn own_cpu_ns() -> i64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Now, in nanoseconds since some time.
fn now_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

fn clock_ns(clock: libc::clockid_t) -> Option<i64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec that lives.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// The clock of a thread's CPU time. `pthread_getcpuclockid` makes the same of its thread, which must live then; this one
/// gives an error where the thread has ended. The layout is the kernel's interface: the complement of the number, and the
/// bits for "of a thread" (4) and "as scheduled" (2).
fn cpu_clock(tid: i32) -> libc::clockid_t {
    (!tid << 3) | 6
}

/// One thread. The holder of the GVL writes `tid` and `counted_ns`, and all write the others.
#[derive(Default)]
struct Watched {
    /// Its number for the kernel; 0 is none.
    tid: AtomicI32,
    /// Its CPU time that samples stand for.
    counted_ns: AtomicI64,
    /// Its CPU time when it was looked at last.
    seen_ns: AtomicI64,
    /// Jobs that were triggered while it ran, since one ran in it or it slept.
    missed_jobs: AtomicU32,
    /// When a job was triggered for it, and its CPU time then.
    asked_at_ns: AtomicI64,
    asked_cpu_ns: AtomicI64,
    /// Whether it was due when it was looked at last.
    was_due: AtomicBool,
}

/// What threads that are due for a sample do: the most of all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Activity {
    /// They sleep.
    Sleeps,
    /// One was put aside by the kernel, or woken and has not run yet: then it is still where it slept.
    WaitsForProcessor,
    /// One has computed since it was looked at last, and still does.
    Computes,
}

/// All of them.
pub(crate) struct Threads {
    watched: Box<[Watched]>,
    /// CPU time of all while they were watched.
    used_ns: AtomicI64,
    /// CPU time of the thread that wakes 99 times a second.
    pub(crate) ticker_ns: AtomicU64,
}

impl Threads {
    /// Room for so many.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            watched: (0..count).map(|_| Watched::default()).collect(),
            used_ns: AtomicI64::new(0),
            ticker_ns: AtomicU64::new(0),
        }
    }

    /// How many there is room for.
    pub(crate) fn len(&self) -> usize {
        self.watched.len()
    }

    /// Watches another thread in that place from now on; 0 is none.
    pub(crate) fn watch(&self, number: usize, tid: i32) {
        let one = &self.watched[number];
        one.tid.store(0, Relaxed);
        let now = clock_ns(cpu_clock(tid)).filter(|_| tid > 0);
        one.counted_ns.store(now.unwrap_or(0), Relaxed);
        one.seen_ns.store(now.unwrap_or(0), Relaxed);
        one.missed_jobs.store(0, Relaxed);
        one.tid.store(now.map_or(0, |_| tid), Relaxed);
    }

    /// CPU time that no sample stands for yet. Adds what the thread has used since it was looked at last to the sum.
    fn due_ns(&self, one: &Watched) -> i64 {
        let tid = one.tid.load(Relaxed);
        let now = clock_ns(cpu_clock(tid)).filter(|_| tid > 0);
        let Some(now) = now else { return 0 };
        // Another thread is watched in this place since a moment.
        if one.tid.load(Relaxed) != tid {
            return 0;
        }
        let before = one.seen_ns.fetch_max(now, Relaxed);
        self.used_ns.fetch_add((now - before).max(0), Relaxed);
        now - one.counted_ns.load(Relaxed)
    }

    /// Whether a thread is due for a sample and runs, or waits for a processor. One that sleeps has used its time before that,
    /// and must not be sampled where it sleeps.
    pub(crate) fn any_due(&self) -> bool {
        let mut any = false;
        // All of them, for the sum of their CPU time.
        for one in &self.watched {
            let is_due = 2 * self.due_ns(one) >= PERIOD_NS && runs(one.tid.load(Relaxed));
            one.was_due.store(is_due, Relaxed);
            if !is_due {
                one.missed_jobs.store(0, Relaxed);
            }
            any |= is_due;
        }
        any
    }

    /// What those that were due do since they were looked at last.
    pub(crate) fn look_again(&self) -> Activity {
        let mut activity = Activity::Sleeps;
        for one in self.watched.iter().filter(|one| one.was_due.load(Relaxed)) {
            let before = one.seen_ns.load(Relaxed);
            self.due_ns(one);
            let computed = one.seen_ns.load(Relaxed) - before >= COMPUTES_NS;
            if !runs(one.tid.load(Relaxed)) {
                one.was_due.store(false, Relaxed);
            } else if !computed {
                activity = activity.max(Activity::WaitsForProcessor);
            } else {
                one.missed_jobs.fetch_add(1, Relaxed);
                one.asked_cpu_ns.store(one.seen_ns.load(Relaxed), Relaxed);
                one.asked_at_ns.store(now_ns(), Relaxed);
                activity = Activity::Computes;
            }
        }
        activity
    }

    /// The number of samples that the calling thread, which is this one, is due for; they count as taken. 0 where it has slept
    /// since the job was triggered, or was not computing then: it may be where it slept.
    pub(crate) fn take_due(&self, number: usize) -> u32 {
        let one = &self.watched[number];
        let late = now_ns() - one.asked_at_ns.load(Relaxed);
        let used = own_cpu_ns() - one.asked_cpu_ns.load(Relaxed);
        // A job has run in it, so it holds the GVL.
        one.missed_jobs.store(0, Relaxed);
        match late > LATE_NS && 2 * used < late {
            true => 0,
            false => self.take(one),
        }
    }

    fn take(&self, one: &Watched) -> u32 {
        // Rounded, and what is over counts for the next one.
        let times = ((self.due_ns(one) + PERIOD_NS / 2) / PERIOD_NS).max(0);
        one.counted_ns.fetch_add(times * PERIOD_NS, Relaxed);
        one.missed_jobs.store(0, Relaxed);
        u32::try_from(times).unwrap_or(u32::MAX)
    }

    /// The number of samples that a thread is due for that computes although no job runs in it: it does not hold the GVL. Else
    /// 0. They count as taken.
    pub(crate) fn take_overdue(&self, number: usize) -> u32 {
        let one = &self.watched[number];
        match one.missed_jobs.load(Relaxed) {
            0..MISSED_JOBS => 0,
            _ => self.take(one),
        }
    }

    /// CPU time of all threads while they were watched, in nanoseconds.
    pub(crate) fn used_ns(&self) -> u64 {
        for one in &self.watched {
            self.due_ns(one);
        }
        self.used_ns.load(Relaxed).max(0) as u64
    }
}

/// Whether the thread runs, or waits for nothing but a processor. True where the kernel does not say.
fn runs(tid: i32) -> bool {
    let stat = fs::read(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may have some itself.
    let name_ends = stat.iter().rposition(|byte| *byte == b')');
    let state = name_ends.and_then(|at| stat.get(at + 2));
    state.is_none_or(|state| *state == b'R')
}
