//! Options: what an exploration is told. All of it is in the command that replays a failure.

use onewrite_block::{Geometry, MIB, Nanos, PAGE_SIZE, TrimRead};
use onewrite_fs::PolicyKind;

use crate::action::Workload;
use crate::subject::{Flag, Mounting, Purpose};

/// Name of the disk that is modelled if nothing else is asked for.
const OWN_DISK: &str = "memory";

/// How to explore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExploreOptions {
    /// Bytes of the image.
    pub size_bytes: u64,
    /// Pages of the page cache during the run.
    pub cache_pages: usize,
    /// Which page leaves it.
    pub cache_policy: PolicyKind,
    /// Age at which a transaction commits by itself.
    pub commit_interval: Nanos,
    /// Age at which a committed block goes home by itself.
    pub checkpoint_age: Nanos,
    /// Promises of the disk that is modelled: FUA, what a cut may lose, whether pages tear.
    pub geometry: Geometry,
    /// The seed of all chance.
    pub seed: u64,
    /// Unflushed writes up to which every subset is a state.
    pub exhaustive_writes_max: usize,
    /// States drawn at a place with more unflushed writes than that.
    pub samples: usize,
    /// States after which the exploration ends.
    pub states_max: u64,
    /// Let `e2fsck -fn` judge every so-many-th recovered state; 0 for none.
    pub e2fsck_every: u64,
    /// Cut inside the recovery of every so-many-th state whose log holds something, 0 for none.
    pub nested_every: u64,
    /// How deep cuts inside recoveries are nested.
    pub nested_depth: u32,
    /// Violations after which the exploration ends.
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
            violations_max: 1,
        }
    }
}

/// The options of the command line in the order in which a replay names them.
const FLAGS: [&str; 14] = [
    "--mode",
    "--size",
    "--journal-blocks",
    "--cache-pages",
    "--commit-interval",
    "--checkpoint-age",
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
    /// The same on a disk that promises what `geometry` says, in the size of the image. It is modelled by its requests
    /// alone, so it knows nothing of a write buffer that evicts.
    pub fn on(self, geometry: &Geometry) -> ExploreOptions {
        let pages = self.size_bytes / PAGE_SIZE as u64;
        ExploreOptions { geometry: Geometry { pages, write_buffer: None, ..geometry.clone() }, ..self }
    }

    /// How the file system is mounted.
    pub fn mounting(&self, purpose: Purpose) -> Mounting {
        Mounting {
            purpose,
            cache_pages: self.cache_pages,
            cache_policy: self.cache_policy,
            commit_interval: self.commit_interval,
            checkpoint_age: self.checkpoint_age,
        }
    }

    /// Whether a cut may leave half a page.
    pub(crate) fn tears(&self) -> bool {
        self.geometry.atomic_write_pages == 0
    }

    /// Whether a cut may leave a SHARE done in part.
    fn tears_shares(&self) -> bool {
        self.geometry.share_pairs_max > 0 && !self.geometry.share_atomic
    }

    /// The command that judges one state of one workload again, on the subject that `flags` choose.
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
            ("--size", Some(format!("{}MiB", self.size_bytes / MIB))),
            ("--cache-pages", Some(self.cache_pages.to_string())),
            ("--commit-interval", millis(self.commit_interval)),
            ("--checkpoint-age", millis(self.checkpoint_age)),
            ("--seed", Some(self.seed.to_string())),
        ];
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
