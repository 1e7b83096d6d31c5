//! An application beside the counted one, behind the same port, whose worker dies with each of its requests. Counts nothing of
//! the other one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use test_support::{Application, Client};

/// The name of the counted application, where it has a neighbour.
pub(crate) const COUNTED: &str = "counted";
/// Between two requests for the neighbour.
const PAUSE: Duration = Duration::from_millis(20);

/// The application that crashes, and its clients.
pub(crate) struct Neighbour {
    application: Application,
    over: Arc<AtomicBool>,
    asking: Option<JoinHandle<usize>>,
}

impl Neighbour {
    /// An application that nobody asks yet.
    pub(crate) fn new() -> Self {
        const CRASHES: &str = r##"run lambda { |env|
            next Test.text("up") if env["PATH_INFO"] == "/up"
            Process.kill(:KILL, Process.pid)
            sleep
        }"##;
        Self {
            application: Application::new(CRASHES),
            over: Arc::default(),
            asking: None,
        }
    }

    /// The tables of both, for the file of settings in the counted one's folder.
    pub(crate) fn tables(&self) -> String {
        let path = self.application.path().display();
        format!(
            "[[application]]\nname = \"{COUNTED}\"\npath = \".\"\n\
             [[application]]\nname = \"crashing\"\npath = \"{path}\"\nhosts = [\"crashing.test\"]\n"
        )
    }

    /// Has somebody ask it all the time.
    pub(crate) fn begin(&mut self, address: SocketAddr) {
        let over = Arc::clone(&self.over);
        self.asking = Some(std::thread::spawn(move || {
            let mut crashes = 0;
            while !over.load(Ordering::Relaxed) {
                // The server may be the next one by now, and close a connection that it did not take over.
                if let Ok(mut client) = Client::try_connect(address)
                    && client
                        .try_send("GET / HTTP/1.1\r\nHost: crashing.test\r\n\r\n")
                        .is_ok()
                    && let Ok(response) = client.try_response("GET")
                {
                    crashes += usize::from(response.status() == 502);
                }
                std::thread::park_timeout(PAUSE);
            }
            crashes
        }));
    }

    /// Ends that, and returns how many requests a worker died with.
    pub(crate) fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        let asking = self.asking.map(JoinHandle::join);
        asking.map_or(0, |crashes| crashes.expect("it does not panic"))
    }
}
