//! Name hash: decides in which bucket of each level of a directory a name lies.
//!
//! The Tiny Encryption Algorithm over pieces of 16 bytes, bytes as unsigned; `.` and `..` have the hash 0.

use crate::tea::{START, tea_rounds, words};

/// The hash of a name.
pub fn name_hash(name: &[u8]) -> u32 {
    if matches!(name, b"." | b"..") {
        return 0;
    }
    let mut state = START;
    for start in (0..name.len()).step_by(16) {
        tea_rounds(&mut state, words(&name[start..], u32::from));
    }
    state[0]
}
