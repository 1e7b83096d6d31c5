//! The thread that keeps certificates, as the server sees it. It parses, signs and waits for the network there, so that no
//! request ever waits for it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

use crate::account::Accounts;
use crate::client::{AskClient, roots};
use crate::clock::Clock;
use crate::dns_command::DnsCommand;
use crate::failure::PlanError;
use crate::installer::{Installer, Severity};
use crate::keeper::{Keeper, Shared, Stored};
use crate::names::Names;
use crate::on_demand::{OnDemand, Verdict};
use crate::plan::Plan;
use crate::status::CertificateStatus;
use crate::storage::Storage;

/// Orders on their way at the same time.
const MAX_ORDERS: usize = 4;
/// Names on demand that the thread has not taken yet; further ones are dropped.
const MAX_WAITING_NAMES: usize = 64;
/// Clients that wait for a certificate on demand; further ones are told at once that there is none.
const MAX_WAITING_CLIENTS: usize = 256;

type StatusTable = Arc<Mutex<BTreeMap<Names, CertificateStatus>>>;

/// Keeps certificates until it is dropped.
pub struct Manager {
    demands: Option<mpsc::Sender<Demand>>,
    table: StatusTable,
    thread: Option<JoinHandle<()>>,
    on_demand: bool,
}

impl Manager {
    /// Serves what is stored, before this returns, then starts the thread that keeps certificates.
    ///
    /// # Errors
    /// The plan cannot work, for instance because `acme_ca_file` has no certificate.
    pub fn start(
        plan: Plan,
        installer: Arc<dyn Installer>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PlanError> {
        // A mistake is found now, and not at the first order.
        let ask_roots = roots(plan.ca_file.as_deref())?;
        let storage = Storage::new(&plan.storage, &plan.directory);
        let mut sets = plan.sets.clone();
        let listed = sets.len();
        if plan.ask_url.is_some() {
            let stored = storage.sets().unwrap_or_default();
            sets.extend(
                stored
                    .into_iter()
                    .filter(|names| !plan.sets.contains(names)),
            );
        }
        let table = StatusTable::default();
        let mut found = Vec::new();
        for names in sets {
            let stored = Stored::install(&names, &storage.set(&names), &*installer);
            let stored = stored.map_err(|failure| installer.log(Severity::Warning, &failure.text));
            if let Ok(stored) = &stored {
                let status = stored.status(&names, clock.now());
                lock(&table).insert(names.clone(), status);
            }
            found.push((names, stored.ok()));
        }
        let (demands, received) = mpsc::channel(MAX_WAITING_NAMES);
        let on_demand = plan.ask_url.is_some();
        let worker = Worker {
            demanded: found.len() - listed,
            found,
            plan,
            storage,
            installer,
            clock,
            table: Arc::clone(&table),
            ask_roots,
        };
        let thread = std::thread::Builder::new()
            .name("certificates".to_owned())
            .spawn(move || worker.run(received))
            .map_err(PlanError::Thread)?;
        Ok(Self {
            demands: Some(demands),
            table,
            thread: Some(thread),
            on_demand,
        })
    }

    /// What is known of each certificate, in the order of their names.
    pub fn status(&self) -> Vec<CertificateStatus> {
        lock(&self.table).values().cloned().collect()
    }

    /// What takes names that nobody listed, if the plan has an address to ask about them.
    pub fn demands(&self) -> Option<Demands> {
        let demands = self.demands.as_ref().filter(|_| self.on_demand)?;
        Some(Demands(demands.downgrade()))
    }
}

/// A client that came for a name without a certificate.
#[derive(Debug)]
struct Demand {
    names: Names,
    /// Dropped when the name has a certificate, or gets none for now.
    client: oneshot::Sender<()>,
}

/// Takes names that somebody connected to and that have no certificate, for as long as the manager is there.
#[derive(Clone, Debug)]
pub struct Demands(mpsc::WeakSender<Demand>);

impl Demands {
    /// Has it asked whether this name gets a certificate, and returns when it has one, or gets none for now. `None` where
    /// too many others wait.
    pub fn demand(&self, name: &str) -> Option<impl Future<Output = ()> + Send + 'static> {
        let demands = self.0.upgrade()?;
        let names = Names::new(&[name]).ok()?;
        let (client, decided) = oneshot::channel();
        if names.has_wildcard() || demands.try_send(Demand { names, client }).is_err() {
            return None;
        }
        Some(async {
            // Nothing is sent: it is dropped.
            let _ = decided.await;
        })
    }
}

/// The clients that wait for each name.
#[derive(Debug, Default)]
struct Waiting(BTreeMap<Names, Vec<oneshot::Sender<()>>>);

impl Waiting {
    /// Lets this one wait, unless too many do already.
    fn add(&mut self, Demand { names, client }: Demand) {
        self.0.retain(|_, clients| {
            clients.retain(|client| !client.is_closed());
            !clients.is_empty()
        });
        if self.0.values().map(Vec::len).sum::<usize>() < MAX_WAITING_CLIENTS {
            self.0.entry(names).or_default().push(client);
        }
    }

    /// Lets those go on that wait for this name.
    fn release(&mut self, names: &Names) {
        self.0.remove(names);
    }
}

impl Manager {
    /// Has the thread end, and does not wait for it: it may be waiting for a disk.
    pub fn end_soon(mut self) {
        drop(self.thread.take());
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        drop(self.demands.take());
        if let Some(thread) = self.thread.take() {
            // It ends at once: an order on its way is continued by the next server.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Manager").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread starts with.
struct Worker {
    /// Sets of names with what was stored of each.
    found: Vec<(Names, Option<Stored>)>,
    /// How many of them nobody listed.
    demanded: usize,
    plan: Plan,
    storage: Storage,
    installer: Arc<dyn Installer>,
    clock: Arc<dyn Clock>,
    table: StatusTable,
    ask_roots: rustls::RootCertStore,
}

impl Worker {
    fn run(self, received: mpsc::Receiver<Demand>) {
        let installer = Arc::clone(&self.installer);
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let text =
                    format!("certificates are not renewed: cannot start the runtime: {error}");
                installer.log(Severity::Warning, &text);
                return;
            }
        };
        let tasks = LocalSet::new();
        tasks.block_on(&runtime, self.serve(received));
        drop(tasks);
        // A look-up of an address may hang in the system's resolver.
        runtime.shutdown_background();
    }

    async fn serve(self, mut received: mpsc::Receiver<Demand>) {
        let Self {
            found,
            demanded,
            plan,
            storage,
            installer,
            clock,
            table,
            ask_roots,
        } = self;
        let mut on_demand = plan
            .ask_url
            .clone()
            .map(|url| OnDemand::new(url, AskClient::new(ask_roots), demanded, clock.now()));
        let waiting = Rc::new(RefCell::new(Waiting::default()));
        let (published, waited) = (Arc::clone(&table), Rc::clone(&waiting));
        let dns = plan.dns_command.clone();
        let dns = dns.map(|program| Arc::new(DnsCommand::new(program, Arc::clone(&installer))));
        let shared = Rc::new(Shared {
            dns,
            listed: plan.sets.clone(),
            profile: plan.profile.clone(),
            accounts: Accounts::new(plan, storage.clone(), Arc::clone(&clock)),
            installer: Arc::clone(&installer),
            clock: Arc::clone(&clock),
            orders: Semaphore::new(MAX_ORDERS),
            publish: Box::new(move |names, status| {
                if !status.ordering {
                    waited.borrow_mut().release(names);
                }
                lock(&published).insert(names.clone(), status);
            }),
        });
        let mut keepers = BTreeSet::new();
        let keep = |names: Names, stored: Option<Stored>| {
            let storage = storage.set(&names);
            let keeper = Keeper::new(names, storage, Rc::clone(&shared), stored);
            spawn_local(keeper.run());
        };
        for (names, stored) in found {
            keepers.insert(names.clone());
            keep(names, stored);
        }
        while let Some(demand) = received.recv().await {
            let (names, Some(on_demand)) = (&demand.names, on_demand.as_mut()) else {
                continue;
            };
            if keepers.contains(names) {
                // Before its first status the order is about to begin.
                if lock(&table).get(names).is_none_or(|status| status.ordering) {
                    waiting.borrow_mut().add(demand);
                }
                continue;
            }
            match on_demand.decide(names, clock.now()).await {
                Verdict::Granted => {
                    keepers.insert(names.clone());
                    keep(names.clone(), None);
                    waiting.borrow_mut().add(demand);
                }
                Verdict::Refused(Some(text)) => installer.log(Severity::Warning, &text),
                Verdict::Refused(None) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(waiting: &mut Waiting, name: &str) -> oneshot::Receiver<()> {
        let (client, decided) = oneshot::channel();
        let names = Names::new(&[name]).unwrap();
        waiting.add(Demand { names, client });
        decided
    }

    #[test]
    fn clients_wait_within_a_bound_until_their_name_is_decided() {
        use oneshot::error::TryRecvError::{Closed, Empty};
        let mut waiting = Waiting::default();
        let mut first = client(&mut waiting, "first.example");
        let mut others: Vec<_> = (1..MAX_WAITING_CLIENTS)
            .map(|_| client(&mut waiting, "other.example"))
            .collect();
        assert_eq!(
            client(&mut waiting, "first.example").try_recv(),
            Err(Closed)
        );
        // One that has left makes room.
        others.pop();
        let mut last = client(&mut waiting, "first.example");
        assert_eq!(last.try_recv(), Err(Empty));
        waiting.release(&Names::new(&["first.example"]).unwrap());
        assert_eq!(
            (first.try_recv(), last.try_recv()),
            (Err(Closed), Err(Closed))
        );
        assert_eq!(others[0].try_recv(), Err(Empty));
    }
}
