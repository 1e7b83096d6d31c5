//! The keeper of a stack for programs other than `highball-lab`, which has it as a hidden command: tests start it.
//! It does nothing that the command would not do.

use clap::Parser;
use stacks::keeper::{Arguments, keep};

#[derive(Debug, Parser)]
struct Keeper {
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> anyhow::Result<()> {
    keep(&Keeper::parse().arguments)
}
