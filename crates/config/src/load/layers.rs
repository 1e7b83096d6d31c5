//! From what the sources say to the settings of a server and of each of its applications: the stronger source wins.

use std::path::Path;

use crate::applications::{ApplicationSettings, ServerSettings};
use crate::error::{ConfigError, ConfigErrors, Origin};
use crate::kind::Value;
use crate::table::{SETTINGS, Settings};

use super::{
    Machine, Raw, Sources, check, defaults, development_defaults, environment, from_file,
    from_flags, resolve,
};

/// A value for each setting, in the order of the table.
type Values = Vec<(Value, Origin)>;
/// Values that were checked, with the numbers of their settings.
type Checked = Vec<(usize, (Value, Origin))>;

/// What the sources say that are the same for all applications.
struct Layers<'a> {
    defaults: Checked,
    file: Checked,
    /// Variables and flags: they are stronger than the table of an application.
    strong: Checked,
    dir: &'a Path,
    port: Option<u16>,
    has_ipv6: bool,
    machine: Machine,
}

/// Loads and checks everything.
///
/// # Errors
/// Everything that is wrong in any of the sources, also where a stronger one would have won.
pub(super) fn load(sources: &Sources, machine: Machine) -> Result<ServerSettings, ConfigErrors> {
    let mut errors = Vec::new();
    let defaults = checked(defaults(), &mut errors);
    let content = from_file(sources, &mut errors);
    let file = checked(content.raws, &mut errors);
    let mut tables = Vec::new();
    for mut table in content.applications {
        let own = checked(std::mem::take(&mut table.raws), &mut errors);
        tables.push((table, own));
    }
    let mut applications: Vec<_> = Vec::new();
    for (table, own) in tables {
        let known = table.check(&sources.dir, &applications, &mut errors);
        applications.extend(known.map(|known| (known, own)));
    }
    errors.sort_by_key(ConfigError::line);
    let (shared, port) = environment::shared(&sources.env, &mut errors);
    let mut strong = checked(shared, &mut errors);
    let (own, ignored) = environment::own(&sources.env, &mut errors);
    strong.extend(checked(own, &mut errors));
    let flags = from_flags(&sources.flags, &mut errors);
    strong.extend(checked(flags, &mut errors));
    let layers = Layers {
        defaults,
        file,
        strong,
        dir: &sources.dir,
        port,
        has_ipv6: (machine.has_ipv6)(),
        machine,
    };
    let mut server = layers.values(&[], &mut errors);
    resolve::folders_of_files(&mut server, &sources.dir);
    if applications.is_empty() {
        resolve::hooks(&server, &sources.dir, &mut errors);
    }
    let mut complete = Vec::new();
    for (table, own) in applications {
        // What is wrong with the server's own is known already.
        let mut values = layers.values(&own, &mut Vec::new());
        resolve::folders_of_files(&mut values, &table.path);
        resolve::hooks(&values, &table.path, &mut errors);
        let settings = Settings::from_values(values);
        complete.push(ApplicationSettings { table, settings });
    }
    if !errors.is_empty() {
        return Err(ConfigErrors(errors));
    }
    let server = Settings {
        warnings: ignored.into_iter().collect(),
        notes: environment::notes(&sources.env),
        ..Settings::from_values(server)
    };
    Ok(ServerSettings {
        server,
        applications: complete,
    })
}

impl Layers<'_> {
    /// The values of the server, or of the application whose table says `own`.
    fn values(&self, own: &[(usize, (Value, Origin))], errors: &mut Vec<ConfigError>) -> Values {
        let mut values: Vec<Option<(Value, Origin)>> = vec![None; SETTINGS.len()];
        for layer in [&self.defaults[..], &self.file, own, &self.strong] {
            for (index, value) in layer {
                values[*index] = Some(value.clone());
            }
        }
        let all = values.into_iter();
        let mut values: Vec<_> = all
            .map(|value| value.expect("the defaults are good"))
            .collect();
        development_defaults(&mut values);
        resolve::listen(&mut values, self.dir, self.port, self.has_ipv6, errors);
        resolve::auto(&mut values, self.machine.cores);
        values
    }
}

/// The values that are right.
fn checked(raws: Vec<Raw>, errors: &mut Vec<ConfigError>) -> Checked {
    let mut all = Vec::new();
    for raw in raws {
        if let Some(value) = check(&raw, errors) {
            let place = raw.place;
            let origin = Origin { place, auto: false };
            all.push((raw.index, (value, origin)));
        }
    }
    all
}
