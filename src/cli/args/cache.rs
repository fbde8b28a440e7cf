//! What was typed after `agon cache`.

use clap::Subcommand;

/// Commands on the team cache.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Show how many runs there are, what they take and what they save
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the runs, the last used first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show where a run comes from, which files it changes and its answer
    Show {
        /// The run's key, or the start of one
        key: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove runs that are expired, damaged or too many
    Prune,
    /// Remove every run
    Clear,
}
