//! The route by which operators choose which of the server's own lines are written. It takes effect at once, also while a change
//! is being made. It writes no line itself.

use std::rc::Rc;

use admin::{Answer, Call, Problem, Routes, lines};
use front::log::{AccessLog, Level, Levels};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_local;

use crate::control::messages::Progress;

/// The word for the level of the settings.
pub(crate) const DEFAULT: &str = "default";

/// The body of `POST /v1/log-level`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WantedLevel {
    /// `info`, `warn`, `error`, or `default` for that of the settings.
    pub(crate) level: String,
}

/// The level of the server's own lines, in its status and for a server that replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LevelReport {
    /// By the setting `log_level`.
    pub(crate) setting: String,
    /// As an operator wants (`highball log-level`), or by the setting.
    pub(crate) current: String,
}

impl LevelReport {
    /// That of a log.
    pub(crate) fn of(log: &AccessLog) -> Self {
        let Levels { setting, current } = log.levels();
        let [setting, current] = [setting, current].map(|level| level.as_str().to_owned());
        Self { setting, current }
    }

    /// Has the log of a server that replaces another one go on with the level that an operator chose there, unless the settings
    /// have another one by now.
    pub(crate) fn pass_on(&self, log: &AccessLog) {
        let is_chosen = self.current != self.setting;
        if is_chosen && self.setting == log.levels().setting.as_str() {
            log.set_level(Level::named(&self.current));
        }
    }
}

/// Adds the route.
pub(crate) fn add_route(routes: Routes, log: &Rc<AccessLog>) -> Routes {
    let log = Rc::clone(log);
    routes.post("/v1/log-level", move |call| change(call, Rc::clone(&log)))
}

async fn change(call: Call, log: Rc<AccessLog>) -> Result<Answer, Problem> {
    let WantedLevel { level } = call.json()?;
    let wanted = Level::named(&level);
    if wanted.is_none() && level != DEFAULT {
        let text = r#"say which level: {"level":"info"}, "warn", "error" or "default""#;
        return Err(Problem::bad_request(text));
    }
    let before = log.levels().current;
    log.set_level(wanted);
    let Levels { setting, current } = log.levels();
    let [before, current, setting] = [before, current, setting].map(Level::as_str);
    let progress = Progress::done(format!(
        "log level {current}, {before} before (setting log_level: {setting})\n"
    ));
    let (lines, answer) = lines();
    spawn_local(async move {
        // A client that has left misses only the answer.
        let _ = lines.send(&progress).await;
    });
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use front::log::Format;

    use super::*;

    #[test]
    fn the_next_server_goes_on_with_a_level_that_was_chosen() {
        let log = || AccessLog::new(Format::Logfmt, std::io::sink()).unwrap();
        let report = |setting: &str, current: &str| LevelReport {
            setting: setting.to_owned(),
            current: current.to_owned(),
        };
        for (before, current) in [
            (report("info", "warn"), Level::Warn),
            (report("info", "info"), Level::Info),
            // The settings of the new one are others.
            (report("warn", "error"), Level::Info),
            // Another version may say anything.
            (report("info", "debug"), Level::Info),
            (LevelReport::default(), Level::Info),
        ] {
            let log = log();
            before.pass_on(&log);
            assert_eq!(log.levels().current, current, "{before:?}");
        }
    }
}
