//! Which generation a request goes to. It knows no process: the supervisor says which generations there are.

use std::io;

use exchange::Geometry;

use super::generation::Generation;
use super::lanes::{Lane, Lanes};
use super::pending::PendingRequest;
use super::queue::{Next, Queue};
use crate::random::random;

/// All generations.
pub(super) struct OpenGenerations {
    /// At least one, in the order in which they were opened.
    pub(super) all: Vec<Generation>,
    /// What the exchanges know: whether requests wait in the queue.
    queue_waits: bool,
    /// How many threads of each worker take requests, as far as it has so many.
    active_threads: u16,
    /// Whether chance decides between two generations with idle threads, for an experiment: the one with more of them would get
    /// nearly all requests where few come.
    pub(super) by_chance: bool,
}

impl OpenGenerations {
    /// Returns the first generation alone, where there are so many shares. Requests go to it.
    pub(super) fn new(number: u32, exchange: exchange::Front, shares: usize) -> Self {
        let mut first = Generation::new(number, exchange, shares);
        first.routable = true;
        Self {
            all: vec![first],
            queue_waits: false,
            active_threads: u16::MAX,
            by_chance: false,
        }
    }

    /// Makes the exchange of a new generation, of these sizes. The queue does not go to it yet.
    ///
    /// # Errors
    /// No memory or descriptors for it.
    pub(super) fn open(
        &mut self,
        number: u32,
        geometry: Geometry,
        shares: usize,
    ) -> io::Result<()> {
        let Some(other) = self.all.first() else {
            return Err(io::Error::other("all generations are gone"));
        };
        let doorbell = other.slots.exchange.doorbell().try_clone()?;
        let exchange = exchange::Front::with_doorbell(geometry, doorbell)?;
        exchange.set_queue_waits(self.queue_waits);
        let mut generation = Generation::new(number, exchange, shares);
        generation.set_active_threads(self.active_threads);
        self.all.push(generation);
        Ok(())
    }

    /// Sets how many threads of each worker take requests, also of generations that are still to come.
    pub(super) fn set_active_threads(&mut self, active: u16) {
        self.active_threads = active;
        for generation in &mut self.all {
            generation.set_active_threads(active);
        }
    }

    /// The generation of this number.
    pub(super) fn get(&self, number: u32) -> Option<&Generation> {
        self.all
            .iter()
            .find(|generation| generation.number == number)
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Generation> {
        let mut all = self.all.iter_mut();
        all.find(|generation| generation.number == number)
    }

    /// Sends the queue to these generations from now on, and to no other.
    pub(super) fn route_to(&mut self, numbers: &[u32]) {
        for generation in &mut self.all {
            generation.routable = numbers.contains(&generation.number);
        }
    }

    /// Generations that the queue goes to.
    fn routable(&self) -> impl Iterator<Item = &Generation> {
        self.all.iter().filter(|generation| generation.routable)
    }

    /// Where the next request of the queue goes, and a slot for it.
    pub(super) fn acquire(&mut self) -> Option<(usize, u16)> {
        let at = self.roomiest()?;
        let slot = self.all[at].slots.exchange.acquire()?;
        Some((at, slot))
    }

    /// The only generation that the queue goes to. Where there are two, the one with more idle threads or by chance, and
    /// none without: a request that waited behind a busy thread could not go to the other generation's.
    fn roomiest(&self) -> Option<usize> {
        if let [only] = &self.all[..] {
            let has_room = only.engaged() < only.slots_in_use();
            return (only.routable && only.slots.is_sound() && has_room).then_some(0);
        }
        let alone = self.routable().count() == 1;
        let routable = (0..).zip(&self.all);
        let routable = routable.filter(|(_, one)| one.routable && one.slots.is_sound());
        let routable = routable.filter(|(_, one)| one.engaged() < one.slots_in_use());
        let idle = routable.filter_map(|(at, one)| match alone {
            true => Some((at, 0)),
            false => {
                let idle = one.workers.threads_up().checked_sub(one.engaged() + 1)?;
                Some((at, idle))
            }
        });
        match self.by_chance {
            false => idle.max_by_key(|(_, idle)| *idle).map(|(at, _)| at),
            true => drawn(idle.map(|(at, idle)| (at, idle + 1))),
        }
    }

    /// Takes back into the queue what no worker has claimed, oldest first; of that, what is `wanted`.
    pub(super) fn requeue_unclaimed(
        &mut self,
        queue: &mut Queue,
        wanted: impl Fn(&Generation, &PendingRequest) -> bool,
    ) {
        let mut unclaimed = Vec::new();
        for generation in &mut self.all {
            for slot in generation.slots.numbers() {
                let request = generation.slots.request(slot);
                if request.is_some_and(|request| wanted(generation, request))
                    && generation.slots.exchange.retract(slot)
                {
                    unclaimed.extend(generation.free(slot));
                }
            }
        }
        queue.put_all_back(unclaimed);
    }

    /// The same where another generation may take it: a worker fewer may leave requests waiting behind busy threads.
    pub(super) fn requeue_for_others(&mut self, queue: &mut Queue) {
        if self.routable().count() > 1 {
            self.requeue_unclaimed(queue, |_, _| true);
        }
    }

    /// Takes requests that wait in slots back, so that one of a priority path in the queue goes before them.
    pub(super) fn make_room_for_priority(&mut self, queue: &mut Queue) {
        let engaged: usize = self.routable().map(Generation::engaged).sum();
        // Where a thread idles all of these are taken at once.
        if engaged >= self.threads_up() {
            self.requeue_unclaimed(queue, |generation, request| {
                generation.routable && request.lane.get() != Lane::Priority
            });
        }
    }

    /// The request of the queue that is to run next. Of a share no more lie in slots than it has of the threads that
    /// serve now, where they are run or about to be; of those that a worker died with, no second one while another has not
    /// begun to answer.
    pub(super) fn next(&self, queue: &Queue, lanes: &Lanes) -> Option<Next> {
        let may = |rule| {
            let engaged = self.routable().map(|one| one.engaged_by_share(rule));
            engaged.sum::<usize>() < lanes.share(rule).of_threads(self.threads_up())
        };
        let mut all = self.all.iter();
        queue.next(may, || !all.any(Generation::tries_poison_suspect))
    }

    fn threads_up(&self) -> usize {
        self.routable().map(|one| one.workers.threads_up()).sum()
    }

    /// Number of requests beyond those that threads can run at once, where so many wait in the queue.
    pub(super) fn beyond_threads(&self, queued: usize) -> usize {
        let taken: usize = self.routable().map(Generation::engaged).sum();
        // Two generations share the threads of one.
        let threads = self
            .routable()
            .map(|one| one.workers.active_target_threads());
        (taken + queued).saturating_sub(threads.max().unwrap_or(0))
    }

    /// Whether fewer requests run than there are threads to run them.
    pub(super) fn has_idle_thread(&self) -> bool {
        self.routable().any(Generation::has_idle_thread)
    }

    /// Lets workers know whether requests wait in the queue, if that has changed.
    pub(super) fn announce_queue(&mut self, waits: bool) {
        if waits != self.queue_waits {
            self.queue_waits = waits;
            for generation in &self.all {
                generation.slots.exchange.set_queue_waits(waits);
            }
        }
    }

    /// Has the workers of all generations ring from now on; false when there is news already.
    pub(super) fn park(&self) -> bool {
        let mut sound = self.all.iter().filter(|one| one.slots.is_sound());
        sound.all(|one| one.slots.unfinished.is_empty() && one.slots.exchange.completions().park())
    }

    /// Drops generations that are gone, and what they left, once no client waits for it. The latest stays until there is
    /// another one, which gets its doorbell.
    pub(super) fn forget_closed(&mut self) {
        let latest = self.all.last().map(|latest| latest.number);
        self.all.retain(|generation| {
            let needed = Some(generation.number) == latest || generation.slots.taken() > 0;
            needed || !generation.closed
        });
    }
}

/// One of these places by chance, each as often as its number of threads says.
fn drawn(places: impl Iterator<Item = (usize, usize)> + Clone) -> Option<usize> {
    let all: usize = places.clone().map(|(_, threads)| threads).sum();
    let mut at = u64::from_le_bytes(random()).checked_rem(all as u64)? as usize;
    let mut places = places;
    let place = places.find(|(_, threads)| match at.checked_sub(*threads) {
        Some(rest) => {
            at = rest;
            false
        }
        None => true,
    });
    place.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_gives_each_generation_its_part_of_the_requests() {
        let mut counts = [0_u32; 3];
        for _ in 0..30_000 {
            let places = [(0, 1), (2, 2)].into_iter();
            counts[drawn(places).unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((9_300..10_700).contains(&counts[0]), "{counts:?}");
        assert_eq!(drawn([].into_iter()), None);
    }
}
