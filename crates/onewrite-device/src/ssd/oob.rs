//! Out-of-band area: what stands beside the content of a flash page and is programmed with it.

use crate::address::Lpn;

/// What a programmed page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The content of a logical page.
    Page(Lpn),
    /// A page of the map log.
    Map,
    /// Nothing that can be read: its program or erase was interrupted.
    Torn,
}

impl Holds {
    const TORN: u32 = u32::MAX;
    const MAP: u32 = u32::MAX - 1;

    /// The word that stands for it in a file.
    pub(crate) const fn word(self) -> u32 {
        match self {
            Holds::Page(lpn) => lpn.0,
            Holds::Map => Holds::MAP,
            Holds::Torn => Holds::TORN,
        }
    }

    /// What a word in a file stands for.
    pub(crate) const fn of_word(word: u32) -> Holds {
        match word {
            Holds::TORN => Holds::Torn,
            Holds::MAP => Holds::Map,
            lpn => Holds::Page(Lpn(lpn)),
        }
    }
}

/// What the out-of-band area of a page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oob {
    /// What the page is for.
    pub(crate) holds: Holds,
    /// Version of the content: higher is newer. A moved page keeps the number it was first written with.
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
