//! Mode: a point in scope × commit × checkpoint, its name and what it promises.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::journal::{Barrier, Check, CheckpointBy, Checksum, Commit, Compressed, Padding, Streams, ZeroPadding};

/// What goes into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Metadata; content goes to its home block at any time.
    Metadata,
    /// Metadata; content that new metadata refers to goes to its home block before the commit.
    OrderedMetadata,
    /// Metadata and content.
    Full,
}

/// What survives a power cut besides synced data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The metadata is whole.
    Metadata,
    /// The metadata is whole, and no file shows blocks that were never its own.
    Data,
    /// The whole tree is as it was at some moment: the state after a prefix of the steps.
    Version,
}

impl Promise {
    /// The word in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Promise::Metadata => "metadata",
            Promise::Data => "data",
            Promise::Version => "version",
        }
    }
}

/// The named modes: what goes into the log, how a commit becomes durable, how blocks come home. Sources: ext4,
/// `papers/000` chapters 3 and 4, `001`, `003`, `004`; `sdj+async` is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Metadata, barrier, copy.
    Writeback,
    /// Ordered metadata, barrier, copy: Linux's default (OJ in the papers).
    Ordered,
    /// Full, barrier, copy (DJ in the papers).
    Data,
    /// Full, checksum, copy: jbd2's async commit.
    DataAsync,
    /// Full, barrier, copy, with a large log whose blocks go home late.
    DataLazy,
    /// Full, compressed, copy.
    DataCmp,
    /// Full, compressed, copy, lazy, self-trimming (LDJ in the papers).
    Ldj,
    /// As `ldj`, with the log as the papers describe it: recovery accepts everything that decompresses. For
    /// measurements only.
    LdjPaper,
    /// Metadata, barrier, share: Linux's default with remapped checkpoints (SOJ in the papers).
    Soj,
    /// Full, barrier, share: everything is written once (SDJ in the papers).
    Sdj,
    /// Full, checksum, share: one write and one FLUSH.
    SdjAsync,
    /// Ordered metadata, padding, copy: no FLUSH in a commit (ext4-zp).
    Zp(Padding),
    /// Full, padding, copy.
    ZpData(Padding),
}

/// The options of zero padding, with the names of both modes.
const PADDED: [(Padding, &str, &str); 6] = [
    (Padding::PLAIN, "zp", "zp-data"),
    (Padding { trims: false, check: Check::Trust }, "zp+no-trim", "zp-data+no-trim"),
    (Padding { trims: true, check: Check::Reread }, "zp+reread", "zp-data+reread"),
    (Padding { trims: false, check: Check::Reread }, "zp+no-trim+reread", "zp-data+no-trim+reread"),
    (Padding { trims: true, check: Check::Hybrid }, "zp+hybrid", "zp-data+hybrid"),
    (Padding { trims: false, check: Check::Hybrid }, "zp+no-trim+hybrid", "zp-data+no-trim+hybrid"),
];

const fn padded_names(padding: Padding) -> (&'static str, &'static str) {
    let at = match padding.check {
        Check::Trust => 0,
        Check::Reread => 2,
        Check::Hybrid => 4,
    };
    let (_, metadata, full) = PADDED[if padding.trims { at } else { at + 1 }];
    (metadata, full)
}

impl Mode {
    /// All modes that keep their promises, weakest promise first. Padding modes appear with plain options only;
    /// `ldj-paper` is left out.
    pub const ALL: [Mode; 12] = [
        Mode::Writeback,
        Mode::Ordered,
        Mode::Soj,
        Mode::Zp(Padding::PLAIN),
        Mode::Data,
        Mode::DataAsync,
        Mode::DataLazy,
        Mode::DataCmp,
        Mode::Ldj,
        Mode::Sdj,
        Mode::SdjAsync,
        Mode::ZpData(Padding::PLAIN),
    ];

    /// All padding modes, with all their options.
    pub fn padded() -> impl Iterator<Item = Mode> {
        PADDED.iter().flat_map(|(padding, ..)| [Mode::Zp(*padding), Mode::ZpData(*padding)])
    }

    /// The name in options, tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Writeback => "writeback",
            Mode::Ordered => "ordered",
            Mode::Data => "data",
            Mode::DataAsync => "data+async",
            Mode::DataLazy => "data+lazy",
            Mode::DataCmp => "data+cmp",
            Mode::Ldj => "ldj",
            Mode::LdjPaper => "ldj-paper",
            Mode::Soj => "soj",
            Mode::Sdj => "sdj",
            Mode::SdjAsync => "sdj+async",
            Mode::Zp(padding) => padded_names(padding).0,
            Mode::ZpData(padding) => padded_names(padding).1,
        }
    }

    /// What goes into the log.
    pub const fn scope(self) -> Scope {
        match self {
            Mode::Writeback => Scope::Metadata,
            Mode::Ordered | Mode::Soj | Mode::Zp(_) => Scope::OrderedMetadata,
            _ => Scope::Full,
        }
    }

    /// Its padding options; `None` if it does not pad.
    pub const fn padding(self) -> Option<Padding> {
        match self {
            Mode::Zp(padding) | Mode::ZpData(padding) => Some(padding),
            _ => None,
        }
    }

    /// What it promises besides synced data.
    pub const fn promise(self) -> Promise {
        match self.scope() {
            Scope::Metadata => Promise::Metadata,
            Scope::OrderedMetadata => Promise::Data,
            Scope::Full => Promise::Version,
        }
    }

    /// How its transactions become durable.
    pub fn commit(self) -> Box<dyn Commit> {
        match self {
            Mode::Writeback | Mode::Ordered | Mode::Data | Mode::DataLazy | Mode::Soj | Mode::Sdj => Box::new(Barrier),
            Mode::DataAsync | Mode::SdjAsync => Box::new(Checksum),
            Mode::Zp(padding) | Mode::ZpData(padding) => Box::new(ZeroPadding::new(padding)),
            Mode::DataCmp | Mode::Ldj => Box::new(Compressed),
            Mode::LdjPaper => Box::new(Streams),
        }
    }

    /// How a checkpoint brings committed blocks home.
    pub const fn checkpoint(self) -> CheckpointBy {
        match self {
            Mode::Soj | Mode::Sdj | Mode::SdjAsync => CheckpointBy::Share,
            _ => CheckpointBy::Copy,
        }
    }

    /// Whether blocks go home late. Then the log is large: 5 GB, or an eighth of the device.
    pub const fn is_lazy(self) -> bool {
        matches!(self, Mode::DataLazy | Mode::Ldj | Mode::LdjPaper)
    }

    /// Whether log space is trimmed before it is used again.
    pub(crate) const fn trims_itself(self) -> bool {
        matches!(self, Mode::Ldj | Mode::LdjPaper)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A mode that does not exist or cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModeError {
    /// No such name.
    #[error("no mode is called `{name}`; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// Two choices that contradict each other.
    #[error("mode `{name}` cannot work: {reason}")]
    Impossible {
        /// What was asked for.
        name: String,
        /// Why.
        reason: &'static str,
    },
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(name: &str) -> Result<Mode, ModeError> {
        if ["ordered+async", "writeback+async", "soj+async"].contains(&name) {
            let reason = "one FLUSH covers the log only, and the commit's checksum does not cover data written in \
                          place; use `data+async`";
            return Err(ModeError::Impossible { name: name.into(), reason });
        }
        if ["ldj+share", "data+cmp+share"].contains(&name) {
            let reason = "no block of a compressed log is the block itself, so there is nothing to share; use `sdj`";
            return Err(ModeError::Impossible { name: name.into(), reason });
        }
        let known = || {
            let all = Mode::ALL.map(Mode::name).join(", ");
            all + "; zp and zp-data also with +no-trim, then +reread or +hybrid"
        };
        let mut modes = Mode::ALL.into_iter().chain(Mode::padded()).chain([Mode::LdjPaper]);
        modes.find(|mode| mode.name() == name).ok_or_else(|| ModeError::Unknown { name: name.into(), known: known() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for mode in Mode::ALL.into_iter().chain(Mode::padded()) {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
    }

    #[test]
    fn one_flush_with_metadata_scope_is_refused_with_the_reason() {
        let error = "ordered+async".parse::<Mode>().unwrap_err().to_string();
        assert!(error.contains("does not cover data written in place"), "{error}");
    }

    #[test]
    fn an_unknown_mode_lists_the_known_ones() {
        let error = "dj".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(
            error,
            "no mode is called `dj`; there are writeback, ordered, soj, zp, data, data+async, data+lazy, data+cmp, \
             ldj, sdj, sdj+async, zp-data; zp and zp-data also with +no-trim, then +reread or +hybrid"
        );
    }
}
