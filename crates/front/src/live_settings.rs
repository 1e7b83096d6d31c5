//! Settings that may be replaced while the server runs. Who looks at them decides what that means.

use std::cell::RefCell;
use std::rc::Rc;

use config::Settings;
use tokio::sync::Notify;

/// Settings that may be replaced while the server runs.
pub struct LiveSettings {
    settings: RefCell<Rc<Settings>>,
    changed: Notify,
}

impl LiveSettings {
    /// Returns these settings, until they are replaced.
    pub fn new(settings: Rc<Settings>) -> Self {
        Self {
            settings: RefCell::new(settings),
            changed: Notify::new(),
        }
    }

    /// The settings in force now.
    pub fn get(&self) -> Rc<Settings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Puts other settings in force.
    pub fn replace(&self, settings: Rc<Settings>) {
        self.settings.replace(settings);
        self.changed.notify_waiters();
    }

    /// Waits until other settings are put in force.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
