//! `check`: prints the settings and where each comes from, and loads the application as `serve` would, without listening
//! and without workers.

use anyhow::{Context, Result};
use command_line::ApplicationArguments;
use config::Settings;
use exchange::Geometry;
use supervisor::{Booted, TemplateProcess};

use crate::application::{Application, FIRST_GENERATION};
use crate::cli::print;
use crate::system::privileges::Identity;

/// The smallest exchange: the template needs one, and no request uses it.
const EXCHANGE: (u16, u16, u32, u32) = (1, 1, 4096, 4096);

/// Checks an application.
///
/// # Errors
/// The settings are wrong, or the application does not load.
pub(crate) fn run(arguments: ApplicationArguments) -> Result<()> {
    let mut application = Application::load(arguments)?.share();
    // As `serve` would load it, and before there is another thread.
    let identity = Identity::find(&application.settings)?;
    identity.assume()?;
    application.child_environment.variables = identity.variables();
    print(&settings_table(&application))?;
    let runtime = front::runtime::build().context("cannot start the runtime")?;
    let booted = runtime.block_on(boot(&application))?;
    print(&summary(&booted))?;
    print(&spool_warning(&application))
}

async fn boot(application: &Application) -> Result<Booted> {
    let (workers, threads, request_bytes, response_bytes) = EXCHANGE;
    let geometry = Geometry::new(workers, threads, request_bytes, response_bytes);
    let exchange = exchange::Front::new(geometry).context("cannot make the exchange")?;
    let (memory, doorbell) = exchange.files();
    let files = [memory.try_clone_to_owned()?, doorbell.try_clone_to_owned()?];
    let code = application.code()()?;
    let load = application.generation(code, FIRST_GENERATION, files, &[])?;
    let mut template = TemplateProcess::spawn(&load)?;
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

fn settings_table(application: &Application) -> String {
    let rows = application.settings.describe();
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut text = format!("settings for {}\n", application.dir.display());
    for (name, value, origin) in rows {
        text += &format!("  {name:<width$}  {value}  ({origin})\n");
    }
    let Settings {
        notes, warnings, ..
    } = &*application.settings;
    text.extend(notes.iter().map(|note| format!("note: {note}\n")));
    text.extend(
        warnings
            .iter()
            .map(|warning| format!("warning: {warning}\n")),
    );
    text
}

fn summary(booted: &Booted) -> String {
    let mut text = format!(
        "the application loads in {:.2} s (ruby {}, rack {})\n",
        booted.seconds, booted.ruby, booted.rack
    );
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
fn spool_warning(application: &Application) -> String {
    let directory = front::spool::place::directory();
    if application.settings.spool_dir.is_some() || !front::spool::place::is_in_memory(&directory) {
        return String::new();
    }
    let directory = directory.display();
    format!(
        "warning: files for large bodies go to {directory}, which is in memory; set spool_dir to a folder on a disk\n"
    )
}
