//! The file whose touch requests a restart (setting `restart_file`). It is looked at once a second and not watched by the
//! kernel: that works on every file system, and for a folder that does not exist yet.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use front::ApplicationFront;
use tokio::time::{MissedTickBehavior, timeout};

use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester};
use crate::hosted::Hosted;
use crate::housekeeping::Housekeeping;

/// How often the file is looked at.
const RESTART_FILE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a server that starts waits for the first look.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// The file, and when it was touched last.
pub(crate) struct RestartFile {
    front: Rc<ApplicationFront>,
    /// The application's name, where there are several.
    name: Option<String>,
    /// The application's folder, as it was named.
    folder: PathBuf,
    path: PathBuf,
    touched: Option<SystemTime>,
    /// Whether it was looked at.
    is_known: bool,
}

impl RestartFile {
    /// Looks at the file now: a later touch requests a restart. Where the file system does not answer within
    /// `FIRST_LOOK_TIMEOUT`, what is seen first counts as known.
    pub(crate) async fn of(hosted: &Hosted) -> Self {
        let front = Rc::clone(&hosted.front);
        let folder = hosted.application.borrow().named.clone();
        let path = folder.join(&front.settings().restart_file);
        let file = path.clone();
        let look = hosted.housekeeping.run(move || touched(&file));
        let looked = timeout(FIRST_LOOK_TIMEOUT, look).await;
        Self {
            is_known: looked.is_ok(),
            touched: looked.ok().and_then(|looked| looked.ok().flatten()),
            name: hosted.name(),
            front,
            folder,
            path,
        }
    }

    /// Requests a restart whenever the file was touched.
    pub(crate) async fn watch(mut self, queue: &ChangeQueue, housekeeping: &Housekeeping) {
        let mut look = tokio::time::interval(RESTART_FILE_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            // The setting may have changed.
            let path = self.folder.join(&self.front.settings().restart_file);
            let file = path.clone();
            let look = housekeeping.run(move || touched(&file)).await;
            let touched = look.ok().flatten();
            if path != self.path || !self.is_known {
                self.path = path;
                self.touched = touched;
                self.is_known = true;
            }
            if touched.is_some() && touched != self.touched {
                let (change, requester) = (Change::Restart(self.name.clone()), Requester::File);
                queue.push(ChangeRequest { change, requester });
            }
            self.touched = touched.or(self.touched);
        }
    }
}

fn touched(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path)
        .and_then(|file| file.modified())
        .ok()
}
