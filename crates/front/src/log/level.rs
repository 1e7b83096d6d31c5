//! Which of the server's own lines are written: those of one level and above. The settings name it, or an operator until the
//! settings name another one. It has no say in lines of requests.

use std::sync::atomic::{AtomicU8, Ordering};

use super::{AccessLog, Level};

/// The level of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// By the setting `log_level`.
    pub setting: Level,
    /// The one that holds: an operator's, or that of the setting.
    pub current: Level,
}

/// The same, for all threads of a server: the numbers of the two.
#[derive(Debug, Default)]
pub(super) struct SharedLevels {
    /// Written by whichever thread applies new settings first.
    setting: AtomicU8,
    /// Written by the same, and by the thread that operators reach.
    current: AtomicU8,
}

impl SharedLevels {
    /// Whether lines of this level are written.
    pub(super) fn write(&self, level: Level) -> bool {
        level as u8 >= self.current.load(Ordering::Relaxed)
    }

    /// Follows the settings, if they name another level than before; an operator's holds otherwise.
    pub(super) fn apply(&self, setting: Level) {
        // Each thread applies the same settings, and one of them may be late.
        if self.setting.swap(setting as u8, Ordering::Relaxed) != setting as u8 {
            self.current.store(setting as u8, Ordering::Relaxed);
        }
    }

    fn get(&self) -> Levels {
        let [setting, current] =
            [&self.setting, &self.current].map(|number| of(number.load(Ordering::Relaxed)));
        Levels { setting, current }
    }
}

impl AccessLog {
    /// The level of the server's own lines.
    pub fn levels(&self) -> Levels {
        self.shared.levels.get()
    }

    /// Writes lines of this level and above from now on, at all threads; `None`: as the setting says. A line says so at any
    /// level.
    pub fn set_level(&self, level: Option<Level>) {
        let Levels { setting, current } = self.levels();
        let level = level.unwrap_or(setting);
        let levels = &self.shared.levels;
        levels.current.store(level as u8, Ordering::Relaxed);
        if level != current {
            let text = format!("log level: {} -> {}", current.as_str(), level.as_str());
            self.always(Level::Info, &text, &[]);
        }
    }
}

/// The level with this number.
fn of(number: u8) -> Level {
    let level = Level::ALL.get(usize::from(number));
    level.copied().unwrap_or(Level::Error)
}
