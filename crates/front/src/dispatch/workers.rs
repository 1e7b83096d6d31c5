//! The workers of one generation, as far as requests go: who serves, and how many requests each has finished. It starts and
//! ends no process.

/// What a worker is for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    /// It is not there, or not ready yet.
    #[default]
    Away,
    /// It serves.
    Up,
    /// It finishes what it has, since then: nanoseconds of the monotonic clock.
    Leaving { since_ns: u64 },
}

impl Standing {
    /// When it began to leave, nanoseconds of the monotonic clock.
    const fn leaving_since(self) -> Option<u64> {
        match self {
            Self::Leaving { since_ns } => Some(since_ns),
            Self::Away | Self::Up => None,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Worker {
    standing: Standing,
    /// Requests that it has finished since it was started.
    finished: u64,
}

/// The workers of one generation.
pub(super) struct Workers {
    /// By their numbers.
    all: Vec<Worker>,
    threads: u16,
    /// How many threads of each take requests.
    active: u16,
    /// How many workers shall serve at once at most, and now.
    most: u16,
    target: u16,
    /// How many leave. Almost always none.
    leaving: u16,
}

impl Workers {
    /// Returns so many places for workers of so many threads; `target` of them shall serve at once.
    pub(super) fn new(places: u16, threads: u16, target: u16) -> Self {
        Self {
            all: vec![Worker::default(); usize::from(places)],
            threads,
            active: threads,
            most: target,
            target,
            leaving: 0,
        }
    }

    fn standing(&self, worker: u16) -> Standing {
        let worker = self.all.get(usize::from(worker));
        worker.map_or(Standing::Away, |worker| worker.standing)
    }

    fn set_standing(&mut self, worker: u16, standing: Standing) {
        let worker = &mut self.all[usize::from(worker)];
        self.leaving -= u16::from(worker.standing.leaving_since().is_some());
        self.leaving += u16::from(standing.leaving_since().is_some());
        worker.standing = standing;
    }

    /// A process is being started for this worker.
    pub(super) fn starts(&mut self, worker: u16) {
        self.set_standing(worker, Standing::Away);
        self.all[usize::from(worker)].finished = 0;
    }

    /// Notes that the worker serves.
    pub(super) fn set_up(&mut self, worker: u16) {
        self.set_standing(worker, Standing::Up);
    }

    /// The worker takes no more requests, from `now_ns` of the monotonic clock on.
    pub(super) fn leaves(&mut self, worker: u16, now_ns: u64) {
        let earlier = self.standing(worker).leaving_since();
        let since_ns = earlier.unwrap_or(now_ns);
        self.set_standing(worker, Standing::Leaving { since_ns });
    }

    /// Notes that the worker is dead or about to be killed.
    pub(super) fn set_away(&mut self, worker: u16) {
        self.set_standing(worker, Standing::Away);
    }

    /// Whether the worker serves.
    pub(super) fn serves(&self, worker: u16) -> bool {
        self.standing(worker) == Standing::Up
    }

    /// Whether the worker finishes what it has.
    pub(super) fn is_leaving(&self, worker: u16) -> bool {
        self.standing(worker).leaving_since().is_some()
    }

    /// Whether any worker leaves.
    pub(super) fn any_leaving(&self) -> bool {
        self.leaving > 0
    }

    /// The workers that leave and began to by `before_ns` of the monotonic clock.
    pub(super) fn leaving_since(&self, before_ns: u64) -> impl Iterator<Item = u16> {
        let all = (0..).zip(&self.all);
        let since = |worker: &Worker| worker.standing.leaving_since();
        let early = all.filter(move |(_, one)| since(one).is_some_and(|since| since <= before_ns));
        early.map(|(number, _)| number)
    }

    /// Sets how many workers shall serve at once, be they there or not.
    pub(super) fn resize(&mut self, target: u16) {
        self.target = target.min(self.most);
    }

    /// Sets how many threads of each worker take requests.
    pub(super) fn set_active_threads(&mut self, active: u16) {
        self.active = active.clamp(1, self.threads);
    }

    /// Number of threads of the workers that shall serve, be they there or not, also of those that rest.
    pub(super) fn target_threads(&self) -> usize {
        usize::from(self.target) * usize::from(self.threads)
    }

    /// The same without those that rest.
    pub(super) fn active_target_threads(&self) -> usize {
        usize::from(self.target) * usize::from(self.active)
    }

    /// Number of threads of the workers that serve, without those that rest.
    pub(super) fn threads_up(&self) -> usize {
        let up = self.all.iter();
        let up = up.filter(|worker| worker.standing == Standing::Up).count();
        up * usize::from(self.active)
    }

    /// Counts a request that the worker has finished.
    pub(super) fn count_finished(&mut self, worker: u16) {
        // A worker that the exchange names has a place here: the exchange has checked it.
        self.all[usize::from(worker)].finished += 1;
    }

    /// Number of requests that the worker has finished since it was started.
    pub(super) fn finished(&self, worker: u16) -> u64 {
        self.all[usize::from(worker)].finished
    }
}
