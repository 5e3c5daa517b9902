//! Out-of-band area: the data beside the content of a flash page, programmed together with it.

use crate::address::Lpn;

/// The role of a programmed page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The content of a logical page.
    Page(Lpn),
    /// A page of the map log.
    Map,
    /// Unreadable: its program or erase was interrupted.
    Torn,
}

impl Holds {
    const TORN: u32 = u32::MAX;
    const MAP: u32 = u32::MAX - 1;

    /// The word for it in a file.
    pub(crate) const fn word(self) -> u32 {
        match self {
            Holds::Page(lpn) => lpn.0,
            Holds::Map => Holds::MAP,
            Holds::Torn => Holds::TORN,
        }
    }

    /// The meaning of a word in a file.
    pub(crate) const fn of_word(word: u32) -> Holds {
        match word {
            Holds::TORN => Holds::Torn,
            Holds::MAP => Holds::Map,
            lpn => Holds::Page(Lpn(lpn)),
        }
    }
}

/// The data in the out-of-band area of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oob {
    /// The role of the page.
    pub(crate) holds: Holds,
    /// Version of the content: higher is newer. A moved page keeps the version of its first write.
    pub(crate) sequence: u64,
}

impl Oob {
    /// The area of a page whose program was interrupted.
    pub(crate) const TORN: Oob = Oob { holds: Holds::Torn, sequence: 0 };

    /// The area of a page with version `sequence` of a logical page.
    pub(crate) const fn page(lpn: Lpn, sequence: u64) -> Oob {
        Oob { holds: Holds::Page(lpn), sequence }
    }

    /// The area of page `number` of the map log.
    pub(crate) const fn map(number: u64) -> Oob {
        Oob { holds: Holds::Map, sequence: number }
    }
}

const _: () = assert!(size_of::<Oob>() == 16, "every flash page keeps one");
