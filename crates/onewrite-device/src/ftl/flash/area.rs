//! Area: the out-of-band area of a page, one word for the kind and number of the page and one for its version.
//!
//! ```text
//!   kind (2 bits) │ number (30 bits)       Logged   a page of the host, at any place
//!                                          InPlace  a page of the host, at its own place in its logical block
//!                                          Map      a translation page
//!                                          Special  blank, torn, or a record of a trim
//! ```

use crate::address::Lpn;

const KIND_SHIFT: u32 = 30;
const NUMBER: u32 = (1 << KIND_SHIFT) - 1;
const LOGGED: u32 = 0;
const IN_PLACE: u32 = 1;
const MAP: u32 = 2;
/// Word of a page that is not programmed.
pub(super) const BLANK: u32 = u32::MAX;
/// Word of a page that was programmed in part.
pub(super) const TORN: u32 = u32::MAX - 1;
/// Word of the record of a trim; numbers of pages stay below it.
pub(super) const TRIM: u32 = u32::MAX - 2;

/// The meaning of a page's out-of-band area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// Not programmed.
    Blank,
    /// Programmed in part; its content cannot be read.
    Torn,
    /// A page of the host, anywhere.
    Logged(Lpn),
    /// A page of the host, at its own place in its logical block.
    InPlace(Lpn),
    /// A translation page, by its number.
    Map(u32),
    /// The record of a trim.
    Trim,
}

impl Area {
    /// The area as its word.
    #[inline]
    pub(super) fn word(self) -> u32 {
        match self {
            Area::Blank => BLANK,
            Area::Torn => TORN,
            Area::Trim => TRIM,
            Area::Logged(lpn) => LOGGED << KIND_SHIFT | lpn.0,
            Area::InPlace(lpn) => IN_PLACE << KIND_SHIFT | lpn.0,
            Area::Map(number) => MAP << KIND_SHIFT | number,
        }
    }

    /// The meaning of a word.
    #[inline]
    pub(super) fn of(word: u32) -> Area {
        match (word, word >> KIND_SHIFT) {
            (BLANK, _) => Area::Blank,
            (TRIM, _) => Area::Trim,
            (_, LOGGED) => Area::Logged(Lpn(word & NUMBER)),
            (_, IN_PLACE) => Area::InPlace(Lpn(word & NUMBER)),
            (_, MAP) => Area::Map(word & NUMBER),
            _ => Area::Torn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_a_word() {
        let areas = [
            Area::Blank,
            Area::Torn,
            Area::Trim,
            Area::Logged(Lpn(0)),
            Area::InPlace(Lpn(NUMBER - 9)),
            Area::Map(NUMBER - 9),
        ];
        for area in areas {
            assert_eq!(Area::of(area.word()), area);
        }
    }
}
