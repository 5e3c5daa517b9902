//! Stack: what lies between a job and its device, and the names that results, options and reports have for it.
//!
//! ext4 goes by its journal mode (`ordered`, `data+async`, …), F2FS by `f2fs` and what differs from its defaults, each
//! behind a plus sign (`f2fs+strict`, `f2fs+share`, `f2fs+lfs`, `f2fs+ipu`, `f2fs+stage`, `f2fs+stage=32MiB`).

use std::fmt;
use std::str::FromStr;

use onewrite_block::MIB;
use onewrite_fs::ext4::{Mode, ModeError, Scope};
use onewrite_fs::f2fs::{Clean, F2fsOptions, FsyncMode, LogMode};

use crate::error::LabError;
use crate::size;

/// What lies between the job and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// ext4 in a journal mode.
    Ext4(Mode),
    /// F2FS.
    F2fs(F2fsStack),
    /// Nothing: the job uses the device itself.
    Raw,
}

/// What a run chooses of F2FS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F2fsStack {
    /// What an fsync promises about names.
    pub fsync_mode: FsyncMode,
    /// How cleaning gives content another address.
    pub clean: Clean,
    /// Which blocks logs take.
    pub log_mode: LogMode,
    /// Pages from which on an fsync writes nothing in place; 0 for never in place.
    pub in_place_below: u32,
    /// Bytes at the end of the device for a staging area, which makes it StageFS; 0 for none.
    pub stage_bytes: u64,
}

/// The name of F2FS with all defaults.
const F2FS: &str = "f2fs";

impl F2fsStack {
    /// Bytes of a staging area that nobody gave a size. From 128 MiB on, the throughput of synchronous writes grew no
    /// more in StageFS's figure 12.
    pub const STAGE_BYTES: u64 = 128 * MIB;

    /// What survives a power cut besides synced data: the tree of a checkpoint, or, with a staging area, the names and
    /// inodes of some moment.
    pub const fn promise(self) -> &'static str {
        if self.stage_bytes == 0 { "checkpoint" } else { "names" }
    }

    /// Words behind the name, each for something that differs from the defaults.
    fn words(self) -> impl Iterator<Item = String> {
        let F2fsStack { fsync_mode, clean, log_mode, in_place_below, stage_bytes } = self;
        let fsync_word = (fsync_mode != FsyncMode::default()).then(|| fsync_mode.name().to_owned());
        let stage_word = (stage_bytes > 0).then(|| match stage_bytes {
            F2fsStack::STAGE_BYTES => "stage".to_owned(),
            other if other % MIB == 0 => format!("stage={}MiB", other / MIB),
            other => format!("stage={other}"),
        });
        let clean_word = (clean != Clean::default()).then(|| clean.name().to_owned());
        let mode_word = (log_mode != LogMode::default()).then(|| log_mode.name().to_owned());
        let in_place_word = (in_place_below > 0).then(|| match in_place_below {
            F2fsOptions::IN_PLACE_BELOW => "ipu".to_owned(),
            other => format!("ipu={other}"),
        });
        [fsync_word, clean_word, mode_word, in_place_word, stage_word].into_iter().flatten()
    }

    /// These options with what `word` says; `None` if it says nothing.
    fn with(self, word: &str) -> Option<F2fsStack> {
        if word == "stage" {
            return Some(F2fsStack { stage_bytes: F2fsStack::STAGE_BYTES, ..self });
        }
        if let Some(given) = word.strip_prefix("stage=") {
            return size::bytes(given).ok().map(|stage_bytes| F2fsStack { stage_bytes, ..self });
        }
        if word == "ipu" {
            return Some(F2fsStack { in_place_below: F2fsOptions::IN_PLACE_BELOW, ..self });
        }
        if let Some(given) = word.strip_prefix("ipu=") {
            return size::count(given).ok().map(|in_place_below| F2fsStack { in_place_below, ..self });
        }
        match (word.parse(), word.parse(), word.parse()) {
            (Ok(fsync_mode), ..) => Some(F2fsStack { fsync_mode, ..self }),
            (_, Ok(clean), _) => Some(F2fsStack { clean, ..self }),
            (.., Ok(log_mode)) => Some(F2fsStack { log_mode, ..self }),
            _ => None,
        }
    }
}

impl Stack {
    /// The name of the file system; `raw` if there is none.
    pub const fn fs_name(self) -> &'static str {
        match self {
            Stack::Ext4(_) => "ext4",
            Stack::F2fs(_) => F2FS,
            Stack::Raw => "raw",
        }
    }

    /// Whether several changes can be committed in one step: ext4 in modes whose log holds content, F2FS without a
    /// staging area.
    pub fn has_drafts(self) -> bool {
        match self {
            Stack::Ext4(mode) => mode.scope() == Scope::Full,
            Stack::F2fs(f2fs) => f2fs.stage_bytes == 0,
            Stack::Raw => false,
        }
    }

    /// The journal mode, if there is a journal.
    pub const fn mode(self) -> Option<Mode> {
        match self {
            Stack::Ext4(mode) => Some(mode),
            Stack::F2fs(_) | Stack::Raw => None,
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stack::Ext4(mode) => f.write_str(mode.name()),
            Stack::F2fs(f2fs) => {
                f.write_str(F2FS)?;
                f2fs.words().try_for_each(|word| write!(f, "+{word}"))
            }
            Stack::Raw => f.write_str("raw"),
        }
    }
}

impl FromStr for Stack {
    type Err = LabError;

    /// A file system by its name in reports. No file system at all has no name here.
    fn from_str(text: &str) -> Result<Stack, LabError> {
        let mut words = text.split('+');
        if words.next() != Some(F2FS) {
            let mode: Result<Mode, ModeError> = text.parse();
            return mode.map(Stack::Ext4).map_err(|error| match error {
                ModeError::Unknown { .. } => LabError::Option(format!("{error}; and `{F2FS}`")),
                impossible @ ModeError::Impossible { .. } => LabError::Option(impossible.to_string()),
            });
        }
        words.try_fold(F2fsStack::default(), F2fsStack::with).map(Stack::F2fs).ok_or_else(|| {
            let known =
                "with +strict, +share, +lfs, +ipu, +ipu=PAGES, +stage or +stage=SIZE behind it; it has no journal mode";
            LabError::Option(format!("`{text}`: F2FS is `{F2FS}`, {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_found_by_the_name_that_it_prints() {
        let sizes = [0, F2fsStack::STAGE_BYTES, 32 * MIB, 300 * 1024];
        let f2fs = Clean::ALL.into_iter().flat_map(|clean| {
            let modes = FsyncMode::ALL.into_iter().map(move |fsync_mode| (clean, fsync_mode));
            modes.flat_map(move |(clean, fsync_mode)| {
                sizes.map(|stage_bytes| F2fsStack { fsync_mode, clean, stage_bytes, ..F2fsStack::default() })
            })
        });
        let lfs = F2fsStack { log_mode: LogMode::Lfs, ..F2fsStack::default() };
        let in_place = [16, 8].map(|in_place_below| F2fsStack { in_place_below, ..F2fsStack::default() });
        let f2fs = f2fs.chain([lfs]).chain(in_place).map(Stack::F2fs);
        for stack in Mode::ALL.into_iter().map(Stack::Ext4).chain(f2fs) {
            assert_eq!(stack.to_string().parse::<Stack>().unwrap(), stack);
        }
    }

    #[test]
    fn a_wrong_name_is_refused_with_what_there_is() {
        let refused = |text: &str| text.parse::<Stack>().unwrap_err().to_string();
        assert!(refused("f2fs+ordered").contains("no journal mode"), "{}", refused("f2fs+ordered"));
        assert!(refused("xfs").contains("f2fs") && refused("xfs").contains("ordered"), "{}", refused("xfs"));
        assert!("raw".parse::<Stack>().is_err());
    }
}
