//! Memory that a burst of requests took: it is given back once no request needs it.

#![allow(clippy::unwrap_used, reason = "they are tests")]

#[path = "support/front.rs"]
mod support;

use std::fs::File;

use support::Server;
use test_support::until;

/// What the shared memory takes, in bytes.
fn resident(server: &Server) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let [memory, _] =
        server.with(|front| front.applications()[0].dispatcher().files(None).unwrap());
    File::from(memory).metadata().unwrap().blocks() * 512
}

#[test]
fn slots_that_a_burst_needed_give_their_memory_back() {
    let server = Server::start(|settings| settings.threads = 8.into());
    let player = server.worker(0);
    let mut threads: Vec<_> = (0..8).map(|thread| player.thread(thread)).collect();
    let before = resident(&server);
    let mut clients: Vec<_> = (0..8)
        .map(|number| server.ask(&format!("/{number}")))
        .collect();
    // All at once, each with a ring full.
    let mut taken: Vec<_> = threads.iter_mut().map(|thread| thread.take()).collect();
    for request in &mut taken {
        request.head(200, &[]);
        for _ in 0..4 {
            request.chunk(&[b'a'; 60_000]);
        }
    }
    assert!(resident(&server) > before + 8 * 240_000);
    taken.into_iter().for_each(|request| request.end());
    for client in &mut clients {
        assert_eq!(client.response().body.len(), 240_000);
    }
    until("their memory is given back", || {
        resident(&server) < before + 200_000
    });
    // Workers serve on in these slots.
    let mut client = server.ask("/after");
    threads[0].take().answer_path();
    assert_eq!(client.response().text(), "/after");
}
