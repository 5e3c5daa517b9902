//! Options: what an exploration is told. All of it is in the command that replays a failure.

use onewrite_block::{Geometry, MIB, Nanos, PAGE_SIZE, TrimRead};
use onewrite_fs::ext4::{Mode, MountOptions, PolicyKind, Scope};
use onewrite_fs::journal::EvictionSpot;

/// Name of the disk that is modelled if nothing else is asked for.
const OWN_DISK: &str = "memory";

/// How to explore. [`ExploreOptions::new`] gives the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExploreOptions {
    /// How the file system stays consistent.
    pub mode: Mode,
    /// Allocate when pages are written out, where the mode allows it.
    pub delayed_allocation: bool,
    /// Bytes of the image.
    pub size_bytes: u64,
    /// Blocks of the log.
    pub journal_blocks: u32,
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
    /// In modes that pad, inside a device: how far; else as far as the device states.
    pub eviction_spot: Option<EvictionSpot>,
}

impl ExploreOptions {
    /// A 32 MiB image with a log of 4 MiB on a disk with FUA and SHARE that may lose any subset of unflushed pages.
    pub fn new(mode: Mode) -> ExploreOptions {
        let size_bytes = 32 * MIB;
        let plain = Geometry::plain(OWN_DISK, size_bytes / PAGE_SIZE as u64);
        let mount = MountOptions::new(mode);
        ExploreOptions {
            mode,
            delayed_allocation: mount.delayed_allocation,
            size_bytes,
            journal_blocks: 1024,
            cache_pages: 1024,
            cache_policy: mount.cache_policy,
            commit_interval: mount.commit_interval,
            checkpoint_age: mount.checkpoint_age,
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
            eviction_spot: None,
        }
    }

    /// The same on a disk that promises what `geometry` says, in the size of the image. It is modelled by its requests
    /// alone, so it knows nothing of a write buffer that evicts.
    pub fn on(self, geometry: &Geometry) -> ExploreOptions {
        let pages = self.size_bytes / PAGE_SIZE as u64;
        ExploreOptions { geometry: Geometry { pages, write_buffer: None, ..geometry.clone() }, ..self }
    }

    /// How the workload's run inside a device is mounted.
    pub(crate) fn mount_inside(&self) -> MountOptions {
        MountOptions { eviction_spot: self.eviction_spot, ..self.mount() }
    }

    /// Whether what survives hangs on a device's write buffer, which requests say nothing of.
    pub(crate) fn pads(&self) -> bool {
        self.mode.padding().is_some()
    }

    /// How the workload's run is mounted.
    pub(crate) fn mount(&self) -> MountOptions {
        MountOptions {
            cache_pages: self.cache_pages,
            cache_policy: self.cache_policy,
            commit_interval: self.commit_interval,
            checkpoint_age: self.checkpoint_age,
            delayed_allocation: self.delayed_allocation,
            ..MountOptions::new(self.mode)
        }
    }

    /// Whether sizes and blocks follow the content.
    pub(crate) fn delays(&self) -> bool {
        self.delayed_allocation && self.mode.scope() != Scope::Full
    }

    /// Whether a cut may leave half a page.
    pub(crate) fn tears(&self) -> bool {
        self.geometry.atomic_write_pages == 0
    }

    /// Whether a cut may leave a SHARE done in part.
    fn tears_shares(&self) -> bool {
        self.geometry.share_pairs_max > 0 && !self.geometry.share_atomic
    }
}

impl ExploreOptions {
    /// The command that judges one state of one workload again.
    pub(crate) fn replay_command(&self, workload: &crate::action::Workload, state: &str) -> String {
        let (mode, size, seed) = (self.mode, self.size_bytes / MIB, self.seed);
        let (journal, cache) = (self.journal_blocks, self.cache_pages);
        let millis = |span: Nanos| span.0 / 1_000_000;
        let (commit, checkpoint) = (millis(self.commit_interval), millis(self.checkpoint_age));
        let device = match self.geometry.name.as_str() {
            OWN_DISK => String::new(),
            name => format!(" --device {name}"),
        };
        let spot = self.eviction_spot.map_or_else(String::new, |spot| format!(" --eviction-spot {}", spot.bytes));
        let policy = match self.cache_policy {
            PolicyKind::Lru => String::new(),
            policy => format!(" --cache-policy {policy}"),
        };
        let delays = if self.delayed_allocation { "" } else { " --nodelalloc" };
        let tears = if self.tears() { " --torn-pages" } else { "" };
        let tears_shares = if self.tears_shares() { " --torn-shares" } else { "" };
        format!(
            "onewrite crash 'script:{workload}' --mode {mode} --size {size}MiB --journal-blocks {journal} \
             --cache-pages {cache} --commit-interval {commit}ms --checkpoint-age {checkpoint}ms --seed {seed}{device}{policy}{delays}{tears}{tears_shares}{spot} \
             --state '{state}'"
        )
    }
}
