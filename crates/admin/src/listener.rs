//! A listener over TCP: accepts operators' connections, each of which needs a place. It reads nothing.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::access::Terms;
use crate::clients::Clients;
use crate::connection::{Asked, Reached, serve};
use crate::routes::Routes;

/// How long accepting pauses when no descriptor is left: clients of the applications need them more.
const ADMIN_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The work for one client, which is to be spawned.
pub type ClientTask = Pin<Box<dyn Future<Output = ()>>>;

/// Accepts connections and answers them, until it is dropped; then no further one is accepted, and those that are open end
/// with their clients, or with their next answer where `terms` say so. `terms` is called for each request, for they may change.
/// `spawn` spawns the work for each client: the server says what its panic would end.
pub async fn serve_listener(
    listener: Rc<TcpListener>,
    routes: Rc<Routes>,
    terms: impl Fn() -> Terms + 'static,
    spawn: impl Fn(ClientTask),
) {
    let terms = Rc::new(terms);
    let clients = Rc::new(Clients::default());
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            tokio::time::sleep(ADMIN_ACCEPT_PAUSE).await;
            continue;
        };
        let Some(place) = clients.admit(peer.ip()) else {
            // A client that finds no place gets no answer: one would need a place.
            drop(socket);
            continue;
        };
        // By what the client connected to: the listener may have every address of this machine.
        let loopback = socket
            .local_addr()
            .is_ok_and(|address| address.ip().to_canonical().is_loopback());
        let peer = Some(peer.ip());
        let reached = Reached { loopback, peer };
        let (routes, terms) = (Rc::clone(&routes), Rc::clone(&terms));
        spawn(Box::pin(async move {
            let asked = |asked| place.asked(asked == Asked::WithToken);
            tokio::select! {
                () = serve(socket, &routes, &*terms, reached, &asked) => {}
                () = place.until_lost() => {}
            }
        }));
    }
}
