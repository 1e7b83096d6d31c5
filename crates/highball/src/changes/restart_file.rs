//! The file whose touch requests a restart (setting `restart_file`). It is looked at once a second and not watched by the
//! kernel: that works on every file system, and for a folder that does not exist yet.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use front::Front;
use tokio::time::MissedTickBehavior;

use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester};
use crate::housekeeping::Housekeeping;

/// How often the file is looked at.
const RESTART_FILE_INTERVAL: Duration = Duration::from_secs(1);

/// The file, and when it was touched last.
pub(crate) struct RestartFile {
    front: Rc<Front>,
    /// The application's folder, as it was named.
    folder: PathBuf,
    path: PathBuf,
    touched: Option<SystemTime>,
}

impl RestartFile {
    /// Looks at the file now: a later touch requests a restart. Blocks.
    pub(crate) fn new(front: Rc<Front>, folder: PathBuf) -> Self {
        let path = folder.join(&front.settings().restart_file);
        Self {
            touched: touched(&path),
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
            if path != self.path {
                self.path = path;
                self.touched = touched;
            }
            if touched.is_some() && touched != self.touched {
                let (change, requester) = (Change::Restart, Requester::File);
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
