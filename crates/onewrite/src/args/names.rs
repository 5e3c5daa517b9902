//! Names: modes and policies as the help lists them and as `onewrite names` prints them, from one list each.

use clap::Subcommand;
use onewrite_fs::ext4::{Mode, PolicyKind};
use onewrite_fs::journal::CheckpointBy;

/// `onewrite names`: for scripts, one name a line.
#[derive(Debug, Subcommand)]
pub enum Names {
    /// Journal modes, each with how its blocks come home: copies, shares or pads.
    Modes,
    /// Modes that pad, with all their options.
    Padded,
    /// Replacement policies that a page cache can have.
    Policies,
}

/// How a mode makes its blocks durable, in one word.
pub fn way(mode: Mode) -> &'static str {
    match (mode.padding(), mode.checkpoint()) {
        (Some(_), _) => "pads",
        (None, CheckpointBy::Share) => "shares",
        (None, CheckpointBy::Copy) => "copies",
    }
}

fn modes_that(way_wanted: &str) -> String {
    let names = Mode::ALL.into_iter().filter(|mode| way(*mode) == way_wanted).map(Mode::name);
    names.collect::<Vec<_>>().join(", ")
}

/// The help of `--mode`.
pub fn mode_help() -> String {
    let (copies, shares, pads) = (modes_that("copies"), modes_that("shares"), modes_that("pads"));
    format!(
        "Journal mode: {copies}; with SHARE {shares}; with zero padding {pads}, which take +no-trim, then +reread or \
         +hybrid"
    )
}

/// The policies that need not know the future, as a page cache in a file system has them.
pub fn page_cache_policies() -> impl Iterator<Item = PolicyKind> + Clone {
    PolicyKind::ALL.into_iter().filter(|kind| !kind.needs_future())
}

fn joined(kinds: impl Iterator<Item = PolicyKind>) -> String {
    kinds.map(PolicyKind::name).collect::<Vec<_>>().join(", ")
}

/// The help of `--cache-policy`.
pub fn cache_policy_help() -> String {
    format!("Replacement policy of the page cache: {}", joined(page_cache_policies()))
}

/// The help of `--policy`.
pub fn policy_help() -> String {
    format!("Policies, with commas between them, or `all`: {}", joined(PolicyKind::ALL.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_and_policy_is_in_the_help_once() {
        let help = mode_help();
        let words: Vec<&str> = help.split([' ', ',', ';']).collect();
        for mode in Mode::ALL {
            assert_eq!(words.iter().filter(|word| **word == mode.name()).count(), 1, "{mode}: {help}");
        }
        for kind in PolicyKind::ALL {
            assert!(policy_help().contains(kind.name()), "{kind}");
            assert_eq!(cache_policy_help().contains(kind.name()), !kind.needs_future(), "{kind}");
        }
    }
}
