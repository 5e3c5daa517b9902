//! Options: the options of an exploration. The command that replays a failure contains all of them.

use std::sync::Arc;

use onewrite_block::{Choices, Geometry, MIB, Nanos, PAGE_SIZE, TrimRead};
use onewrite_fs::PolicyKind;

use crate::action::Workload;
use crate::base::BaseImage;
use crate::disk::Pace;
use crate::subject::{Flag, Mounting, Purpose};

/// Name of the disk that is modelled by default.
const OWN_DISK: &str = "memory";

/// How to explore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExploreOptions {
    /// Size of the image in bytes.
    pub size_bytes: u64,
    /// Pages of the page cache during the run.
    pub cache_pages: usize,
    /// Policy that chooses the page to evict.
    pub cache_policy: PolicyKind,
    /// Age at which a transaction commits automatically.
    pub commit_interval: Nanos,
    /// Age at which a committed block is checkpointed automatically.
    pub checkpoint_age: Nanos,
    /// Whether writeback begins as soon as a tenth of the cache is dirty, as on a mount for programs.
    pub prompt_writeback: bool,
    /// The image with which every workload begins; `None`: a new one of the subject's own.
    pub base: Option<Arc<BaseImage>>,
    /// On the modelled disk one of so many requests takes milliseconds, at random; 0: none does.
    pub slow_one_in: u64,
    /// Promises of the modelled disk: FUA, what a power cut may lose, whether pages tear.
    pub geometry: Geometry,
    /// The seed of all random choices.
    pub seed: u64,
    /// Most unflushed writes at a place for which every subset is a state.
    pub exhaustive_writes_max: usize,
    /// Number of random states at a place with more unflushed writes.
    pub samples: usize,
    /// Number of states after which the exploration ends.
    pub states_max: u64,
    /// Runs `e2fsck -fn` on every n-th recovered state; 0 for none.
    pub e2fsck_every: u64,
    /// Cuts the power inside the recovery of every n-th state with a non-empty log; 0 for none.
    pub nested_every: u64,
    /// Most recoveries in a row that are cut.
    pub nested_depth: u32,
    /// Whether the mounted file system is judged, too, not the states alone.
    pub reads_mounted: bool,
    /// One of so many workloads is judged at every place, the others at ten and at their end; at least 1.
    pub thorough_every: u64,
    /// Number of violations after which the exploration ends.
    pub violations_max: usize,
}

impl Default for ExploreOptions {
    /// A 32 MiB image on a disk with FUA and SHARE that may lose any subset of unflushed pages.
    fn default() -> ExploreOptions {
        let size_bytes = 32 * MIB;
        let plain = Geometry::plain(OWN_DISK, size_bytes / PAGE_SIZE as u64);
        ExploreOptions {
            size_bytes,
            cache_pages: 1024,
            cache_policy: PolicyKind::Lru,
            commit_interval: Nanos::from_secs(5),
            checkpoint_age: Nanos::from_secs(30),
            prompt_writeback: false,
            base: None,
            slow_one_in: 0,
            geometry: Geometry {
                fua: true,
                trim_read: TrimRead::Zeros,
                share_pairs_max: 64,
                share_atomic: true,
                ..plain
            },
            seed: 1,
            exhaustive_writes_max: 8,
            samples: 24,
            states_max: u64::MAX,
            e2fsck_every: 1_000,
            nested_every: 50,
            nested_depth: 2,
            reads_mounted: true,
            thorough_every: 1,
            violations_max: 1,
        }
    }
}

/// The command-line options, in the order of a replay command.
const FLAGS: [&str; 20] = [
    "--fs",
    "--fsync-mode",
    "--clean",
    "--mode",
    "--mkfs",
    "--size",
    "--journal-blocks",
    "--cache-pages",
    "--commit-interval",
    "--checkpoint-age",
    "--prompt-writeback",
    "--slow-one-in",
    "--seed",
    "--device",
    "--cache-policy",
    "--nodelalloc",
    "--torn-pages",
    "--torn-shares",
    "--eviction-spot",
    "--state",
];

impl ExploreOptions {
    /// The same options on a disk with the promises of `geometry` and the size of the image. The model sees requests
    /// only, so it has no write buffer that evicts.
    pub fn on(self, geometry: &Geometry) -> ExploreOptions {
        let pages = self.size_bytes / PAGE_SIZE as u64;
        ExploreOptions { geometry: Geometry { pages, write_buffer: None, ..geometry.clone() }, ..self }
    }

    /// The same options for an image of `size_bytes`, on a disk of that size.
    pub fn with_size(self, size_bytes: u64) -> ExploreOptions {
        let geometry = self.geometry.clone();
        ExploreOptions { size_bytes, ..self }.on(&geometry)
    }

    /// The mount options.
    pub fn mounting(&self, purpose: Purpose) -> Mounting {
        Mounting {
            purpose,
            cache_pages: self.cache_pages,
            cache_policy: self.cache_policy,
            commit_interval: self.commit_interval,
            checkpoint_age: self.checkpoint_age,
            prompt_writeback: self.prompt_writeback,
        }
    }

    /// How long requests of the modelled disk take in a run.
    pub(crate) fn pace(&self) -> Pace {
        self.pace_of("pace")
    }

    /// The same, by a stream of chance of its own.
    pub(crate) fn pace_of(&self, stream: &str) -> Pace {
        Pace { choices: Choices::new(self.seed).stream(stream, 0), slow_one_in: self.slow_one_in }
    }

    /// Whether a power cut may tear a page.
    pub(crate) fn tears(&self) -> bool {
        self.geometry.atomic_write_pages == 0
    }

    /// Whether a power cut may leave a SHARE half done.
    fn tears_shares(&self) -> bool {
        self.geometry.share_pairs_max > 0 && !self.geometry.share_atomic
    }

    /// The command that judges one state of one workload again; `flags` choose the subject.
    pub(crate) fn replay_command(&self, workload: &Workload, state: &str, flags: Vec<Flag>) -> String {
        let mut flags = flags;
        flags.extend(self.flags());
        flags.push(("--state", Some(format!("'{state}'"))));
        flags.sort_by_key(|(name, _)| FLAGS.iter().position(|flag| flag == name));
        let word = |(name, value): (&str, Option<String>)| match value {
            Some(value) => format!(" {name} {value}"),
            None => format!(" {name}"),
        };
        let words: String = flags.into_iter().map(word).collect();
        format!("onewrite crash 'script:{workload}'{words}")
    }

    fn flags(&self) -> Vec<Flag> {
        let millis = |span: Nanos| Some(format!("{}ms", span.0 / 1_000_000));
        let mut flags: Vec<Flag> = vec![
            ("--size", Some(size_text(self.size_bytes))),
            ("--cache-pages", Some(self.cache_pages.to_string())),
            ("--commit-interval", millis(self.commit_interval)),
            ("--checkpoint-age", millis(self.checkpoint_age)),
            ("--seed", Some(self.seed.to_string())),
        ];
        if self.prompt_writeback {
            flags.push(("--prompt-writeback", None));
        }
        let made = self.base.as_ref().map(|base| format!("'{}'", base.command().replace('\'', "'\\''")));
        flags.extend(made.map(|command| ("--mkfs", Some(command))));
        if self.slow_one_in > 0 {
            flags.push(("--slow-one-in", Some(self.slow_one_in.to_string())));
        }
        if self.geometry.name != OWN_DISK {
            flags.push(("--device", Some(self.geometry.name.clone())));
        }
        if self.cache_policy != PolicyKind::Lru {
            flags.push(("--cache-policy", Some(self.cache_policy.to_string())));
        }
        if self.tears() {
            flags.push(("--torn-pages", None));
        }
        if self.tears_shares() {
            flags.push(("--torn-shares", None));
        }
        flags
    }
}

/// A size as `--size` takes it, to the byte.
fn size_text(bytes: u64) -> String {
    match bytes.is_multiple_of(MIB) {
        true => format!("{}MiB", bytes / MIB),
        false => format!("{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::KIB;

    use super::*;

    #[test]
    fn a_replay_has_the_size_to_the_byte() {
        assert_eq!(size_text(64 * MIB), "64MiB");
        assert_eq!(size_text(64 * MIB + 256 * KIB), "67371008");
    }
}
