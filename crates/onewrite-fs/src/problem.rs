//! Problem: what is wrong with a structure on disk, of any format.
//!
//! A damaged image can cause many of them, so they allocate nothing.

use thiserror::Error;

/// What is wrong with a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The structure has a wrong magic number.
    #[error("magic number {found:#x} where {expected:#x} belongs")]
    Magic {
        /// The number read.
        found: u32,
        /// The magic number of this structure.
        expected: u32,
    },
    /// Its content and its checksum disagree.
    #[error("checksum {found:#010x} where the content gives {expected:#010x}")]
    Checksum {
        /// The checksum stored.
        found: u32,
        /// The checksum of the content.
        expected: u32,
    },
    /// A field has a forbidden value.
    #[error("{field} is {value}: {rule}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The rule that the value breaks.
        rule: &'static str,
    },
    /// A field of one table entry has a forbidden value.
    #[error("entry at offset {offset}: {field} is {value}: {rule}")]
    Entry {
        /// Bytes from the start of the structure to the entry.
        offset: u32,
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The rule that the value breaks.
        rule: &'static str,
    },
    /// An entry of a list breaks a rule.
    #[error("at byte {offset}: {rule}")]
    Listed {
        /// Bytes from the start of the structure to the entry.
        offset: usize,
        /// The rule that the entry breaks.
        rule: &'static str,
    },
    /// There are too few bytes.
    #[error("{length} bytes where at least {needed} belong")]
    Short {
        /// Bytes given.
        length: usize,
        /// Bytes of the structure.
        needed: usize,
    },
}
