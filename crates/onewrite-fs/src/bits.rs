//! Sets of features in words.

use std::fmt;

/// Writes the name of each bit that is set, from the lowest on; a bit without a name as a number.
pub(crate) fn write_names(f: &mut fmt::Formatter<'_>, bits: u32, names: &[(u32, &str)]) -> fmt::Result {
    let mut separator = "";
    for bit in (0..u32::BITS).map(|index| 1_u32 << index).filter(|bit| bits & bit != 0) {
        match names.iter().find(|(value, _)| *value == bit) {
            Some((_, name)) => write!(f, "{separator}{name}")?,
            None => write!(f, "{separator}{bit:#x}")?,
        }
        separator = ", ";
    }
    Ok(())
}
