//! `check`: prints the settings and where each comes from, and loads the application as `serve` would, without listening
//! and without workers.

use anyhow::{Context, Result};
use command_line::ApplicationArguments;
use config::{Listen, Settings};
use exchange::Geometry;
use supervisor::{Booted, TemplateProcess};

use crate::application::{Application, ChildEnvironment, FIRST_GENERATION};
use crate::cli::print;
use crate::launchers::{IdleLaunchers, Launchers};
use crate::setup::Setup;
use crate::system::privileges::Identity;

/// The smallest exchange: the template needs one, and no request uses it.
const EXCHANGE: (u16, u16, u32, u32) = (1, 1, 4096, 4096);

/// Checks an application.
///
/// # Errors
/// The settings are wrong, or the application does not load.
pub(crate) fn run(arguments: ApplicationArguments) -> Result<()> {
    let mut setup = Setup::load(arguments)?.share();
    // As `serve` would load it, and before there is another thread.
    let identity = Identity::find(&setup.settings)?;
    setup.set_child_environment(&ChildEnvironment {
        variables: identity.variables(),
        ..ChildEnvironment::default()
    });
    let launchers = IdleLaunchers::open(&mut setup, identity.user(), None)?;
    identity.assume()?;
    print(&settings_table(&setup))?;
    print(&certificates(&setup)?)?;
    let runtime = front::runtime::build().context("cannot start the runtime")?;
    let launchers = runtime.block_on(async { launchers.begin(|_| ()) });
    let launchers = launchers.context("cannot reach the launchers")?;
    let mut failed = Vec::new();
    for application in &setup.applications {
        let Some(name) = application.name() else {
            let booted = runtime.block_on(boot(application, &launchers))?;
            print(&summary("the application", application, &booted))?;
            continue;
        };
        print(&own_settings(&setup, application))?;
        match runtime.block_on(boot(application, &launchers)) {
            Ok(booted) => print(&summary(name, application, &booted))?,
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    print(&spool_warning(&setup.settings))?;
    match failed.is_empty() {
        true => Ok(()),
        false => anyhow::bail!(failed.join("\n")),
    }
}

async fn boot(application: &Application, launchers: &Launchers) -> Result<Booted> {
    let (workers, threads, request_bytes, response_bytes) = EXCHANGE;
    let geometry = Geometry::new(workers, threads, request_bytes, response_bytes);
    let exchange = exchange::Front::new(geometry).context("cannot make the exchange")?;
    let (memory, doorbell) = exchange.files();
    let files = [memory.try_clone_to_owned()?, doorbell.try_clone_to_owned()?];
    let code = application.code()()?;
    let load = application.generation(code, FIRST_GENERATION, files, &[])?;
    let launcher = launchers.of(application.child_environment.user)?;
    let mut template = TemplateProcess::spawn(&load, launcher).await?;
    let booted = tokio::select! {
        booted = template.boot(&load, false, load.plan.boot_timeout) => booted?,
        // Dropping the future kills the template.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            anyhow::bail!("interrupted");
        }
    };
    template.leave().await;
    Ok(booted)
}

fn settings_table(setup: &Setup) -> String {
    let rows = setup.settings.describe();
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut text = format!("settings for {}\n", setup.dir.display());
    for (name, value, origin) in rows {
        text += &format!("  {name:<width$}  {value}  ({origin})\n");
    }
    let Settings {
        notes, warnings, ..
    } = &*setup.settings;
    text.extend(notes.iter().map(|note| format!("note: {note}\n")));
    text.extend(
        warnings
            .iter()
            .map(|warning| format!("warning: {warning}\n")),
    );
    text
}

/// What the table of an application says: where it is found, and the settings that differ from the server's.
fn own_settings(setup: &Setup, application: &Application) -> String {
    let Some(table) = &application.table else {
        return String::new();
    };
    let hosts: Vec<String> = table.hosts.iter().map(ToString::to_string).collect();
    let hosts = match hosts.is_empty() {
        true => "any host".to_owned(),
        false => hosts.join(", "),
    };
    let (name, dir, prefix) = (&table.name, application.named.display(), &table.prefix);
    let mut text = format!("application {name}: {dir} for {hosts}{prefix}\n");
    if let Some(user) = &table.user {
        text += &format!("  user  {user}\n");
    }
    if let Some(group) = &table.group {
        text += &format!("  group  {group}\n");
    }
    let own = setup.settings.changes(&application.settings);
    text.extend(
        own.iter()
            .map(|one| format!("  {}  {}\n", one.name, one.to)),
    );
    text
}

/// Returns a line for each certificate, with what is wrong or will be soon.
///
/// # Errors
/// One cannot be used, or there is none for a listener with TLS.
fn certificates(setup: &Setup) -> Result<String> {
    let settings = &setup.settings;
    let has_tls = settings
        .listen
        .iter()
        .any(|one| matches!(one, Listen::Tls(_)));
    if !has_tls {
        return Ok(String::new());
    }
    let all = front::check_tls(settings, &setup.named).context("cannot serve over TLS")?;
    let lines = all.iter().map(|one| {
        let names = one.names.join(", ");
        let warning = one.warning.as_ref();
        let warning =
            warning.map_or_else(String::new, |text| format!("warning: {names}: {text}\n"));
        format!("certificate for {names}, until {}\n{warning}", one.ends)
    });
    Ok(lines.collect())
}

fn summary(name: &str, application: &Application, booted: &Booted) -> String {
    let mut text = format!(
        "{name} loads in {:.2} s (ruby {}, rack {})\n",
        booted.seconds, booted.ruby, booted.rack
    );
    for option in &booted.runtime {
        let (name, value, reason) = (&option.name, &option.value, &option.reason);
        text += &format!("  {name:<12} {value}: {reason}\n");
    }
    if application.settings.warm_up.frequent {
        text += "note: a restart also requests the pages that clients of the running server ask for most (warm_up); \
                 highball status names them\n";
    }
    for sentence in &booted.held {
        text += &format!("warning: {sentence}\n");
    }
    for sentence in &booted.gems {
        let kind = match sentence.ends_with("nothing is to be done") {
            true => "note",
            false => "warning",
        };
        text += &format!("{kind}: {sentence}\n");
    }
    text
}

/// Returns a warning if files for large bodies would be in memory.
fn spool_warning(settings: &Settings) -> String {
    let directory = front::spool::place::directory();
    if settings.spool_dir.is_some() || !front::spool::place::is_in_memory(&directory) {
        return String::new();
    }
    let directory = directory.display();
    format!(
        "warning: files for large bodies go to {directory}, which is in memory; set spool_dir to a folder on a disk\n"
    )
}
