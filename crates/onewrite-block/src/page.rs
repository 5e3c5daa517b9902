//! Page: the content of 4 KiB, handed around by reference.
//!
//! Its one idea: content moves between cache, journal and device as a handle, never as a copy. A handle is zeros, a
//! seeded pattern (so that a 20 GB experiment needs no 20 GB), shared bytes, or the shared ends of bytes that are zeros
//! between them (an inode of F2FS is a page; most of it is zeros). A write through a handle that others
//! share copies the bytes first, so a clone is a frozen copy for ever. In this way a committing transaction keeps its
//! version of a block while the next one changes it.
//!
//! Shared bytes remember their hash and their checksum once somebody asked: what names the same bytes again and again
//! (a crash explorer, a recovery) reads them once. Invariant: what they remember is of the bytes as they are, for a
//! change forgets it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checksum::{crc32c, crc32c_of_page};
use crate::content_hash::{HASH_OF_ZEROS, hash_of};
use crate::units::PAGE_SIZE;

/// The bytes of a page.
pub type PageBytes = [u8; PAGE_SIZE];

static ZERO_BYTES: PageBytes = [0; PAGE_SIZE];

/// A recipe for the content of one page: the same recipe gives the same bytes on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Selects the bytes; two seeds give unrelated bytes.
    pub seed: u64,
    /// Percentage of zeros, at the end of the page; 0 to 100. fio's `buffer_compress_percentage`.
    pub compressible_percent: u8,
}

impl Pattern {
    /// The bytes of the recipe.
    pub fn bytes(self) -> PageBytes {
        let mut bytes = [0; PAGE_SIZE];
        self.write_to(&mut bytes);
        bytes
    }

    /// Number of bytes in front of the zeros.
    fn random_bytes(self) -> usize {
        PAGE_SIZE * usize::from(100 - self.compressible_percent.min(100)) / 100
    }

    /// Writes the bytes over a page of zeros.
    fn write_to(self, zeros: &mut PageBytes) {
        let mut state = self.seed;
        fill(&mut state, &mut zeros[..self.random_bytes()]);
    }

    /// The bytes of `part`. Generates no others.
    ///
    /// # Panics
    /// If the part reaches beyond the page.
    pub fn part(self, part: Range<usize>) -> Vec<u8> {
        assert!(part.end <= PAGE_SIZE, "{part:?} reaches beyond a page");
        let mut bytes = vec![0; part.len()];
        let random = self.random_bytes().clamp(part.start, part.end) - part.start;
        // The state grows by the same number with each word, so generation can begin at any.
        let mut state = self.seed.wrapping_add(STEP.wrapping_mul((part.start / WORD) as u64));
        let begun = part.start % WORD;
        let first = if begun > 0 { random.min(WORD - begun) } else { 0 };
        if first > 0 {
            bytes[..first].copy_from_slice(&split_mix(&mut state).to_le_bytes()[begun..begun + first]);
        }
        fill(&mut state, &mut bytes[first..random]);
        bytes
    }
}

/// Bytes of a word of a pattern.
const WORD: usize = size_of::<u64>();
/// What [`split_mix`] adds to its state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fills `bytes` with the words that follow `state`; cuts the last.
fn fill(state: &mut u64, bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<WORD>();
    for word in words {
        *word = split_mix(state).to_le_bytes();
    }
    rest.copy_from_slice(&split_mix(state).to_le_bytes()[..rest.len()]);
}

/// One step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): bits that cost little and depend on `state` alone.
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bytes in memory, and what was computed of them.
struct Stored {
    bytes: PageBytes,
    sums: Sums,
}

/// Sums of bytes that are known once they were asked for.
#[derive(Default)]
struct Sums {
    /// [`Page::content_hash`]; 0 if unknown (or 0).
    hash: AtomicU64,
    /// [`Page::digest`] with [`Sums::KNOWN`] set; 0 if unknown.
    digest: AtomicU64,
}

impl Sums {
    const KNOWN: u64 = 1 << 32;

    fn hash(&self, compute: impl FnOnce() -> u64) -> u64 {
        let known = self.hash.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let hash = compute();
        self.hash.store(hash, Ordering::Relaxed);
        hash
    }

    fn digest(&self, compute: impl FnOnce() -> u32) -> u32 {
        let known = self.digest.load(Ordering::Relaxed);
        if known != 0 {
            return known as u32;
        }
        let digest = compute();
        self.digest.store(u64::from(digest) | Sums::KNOWN, Ordering::Relaxed);
        digest
    }
}

/// Bytes at the beginning and at the end of a thin page.
const HEAD: usize = 448;
const TAIL: usize = 64;

/// The ends of bytes that are zeros between them, and what was computed of all.
struct Thin {
    head: [u8; HEAD],
    tail: [u8; TAIL],
    sums: Sums,
}

impl Thin {
    /// The ends of these bytes, if there are only zeros between them.
    fn of(bytes: &PageBytes) -> Option<Arc<Thin>> {
        let (head, rest) = bytes.split_first_chunk().expect("shorter than a page");
        let (middle, tail) = rest.split_last_chunk().expect("shorter than a page");
        let is_thin = *middle == ZERO_BYTES[..middle.len()];
        is_thin.then(|| Arc::new(Thin { head: *head, tail: *tail, sums: Sums::default() }))
    }

    /// Puts the ends into zeros.
    fn write_to(&self, zeros: &mut PageBytes) {
        zeros[..HEAD].copy_from_slice(&self.head);
        zeros[PAGE_SIZE - TAIL..].copy_from_slice(&self.tail);
    }

    fn bytes(&self) -> PageBytes {
        let mut bytes = [0; PAGE_SIZE];
        self.write_to(&mut bytes);
        bytes
    }

    fn is_zeros(&self) -> bool {
        self.head == ZERO_BYTES[..HEAD] && self.tail == ZERO_BYTES[..TAIL]
    }

    /// As [`Page::read_at`].
    fn read_at<const COUNT: usize>(&self, at: usize) -> [u8; COUNT] {
        let byte = |at: usize| match (self.head.get(at), at.checked_sub(PAGE_SIZE - TAIL)) {
            (Some(byte), _) => *byte,
            (None, Some(at)) => self.tail[at],
            (None, None) => 0,
        };
        std::array::from_fn(|index| byte(at + index))
    }
}

/// A hash of 64 bits of these bytes.
fn content_hash_of(bytes: &PageBytes) -> u64 {
    if *bytes == ZERO_BYTES { HASH_OF_ZEROS } else { hash_of(bytes) }
}

impl Stored {
    fn new(bytes: PageBytes) -> Arc<Stored> {
        Arc::new(Stored { bytes, sums: Sums::default() })
    }
}

impl Clone for Stored {
    /// The same bytes; about to change, so that nothing is known of them.
    fn clone(&self) -> Stored {
        Stored { bytes: self.bytes, sums: Sums::default() }
    }
}

#[derive(Clone)]
enum Content {
    Zeros,
    Pattern(Pattern),
    Bytes(Arc<Stored>),
    Thin(Arc<Thin>),
}

/// A handle to the content of one page. A clone copies no bytes; see the module's head.
#[derive(Clone)]
pub struct Page(Content);

impl Page {
    /// A page of zeros.
    pub const ZEROS: Page = Page(Content::Zeros);

    /// A page of seeded bytes. It takes no memory until it is changed.
    pub const fn pattern(pattern: Pattern) -> Page {
        Page(Content::Pattern(pattern))
    }

    /// A page of the given bytes.
    pub fn new(bytes: PageBytes) -> Page {
        Page(Content::Bytes(Stored::new(bytes)))
    }

    /// A page that begins with `bytes`, filled up with zeros.
    ///
    /// # Panics
    /// If `bytes` is longer than a page.
    pub fn from_slice(bytes: &[u8]) -> Page {
        if let Ok(bytes) = <&PageBytes>::try_from(bytes) {
            return Page(Content::Bytes(Stored::new(*bytes)));
        }
        let mut page = Page::ZEROS;
        page.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        page
    }

    /// Lets the page take an eighth of the memory, if there are only zeros between its ends.
    pub fn thin(&mut self) {
        if let Content::Bytes(stored) = &self.0
            && let Some(thin) = Thin::of(&stored.bytes)
        {
            self.0 = Content::Thin(thin);
        }
    }

    /// The bytes, unless they have to be generated.
    pub fn held_bytes(&self) -> Option<&PageBytes> {
        match &self.0 {
            Content::Zeros => Some(&ZERO_BYTES),
            Content::Pattern(_) | Content::Thin(_) => None,
            Content::Bytes(stored) => Some(&stored.bytes),
        }
    }

    /// The bytes; generated for a pattern and a thin page, borrowed otherwise.
    pub fn bytes(&self) -> Cow<'_, PageBytes> {
        match &self.0 {
            Content::Zeros => Cow::Borrowed(&ZERO_BYTES),
            Content::Pattern(pattern) => Cow::Owned(pattern.bytes()),
            Content::Bytes(stored) => Cow::Borrowed(&stored.bytes),
            Content::Thin(thin) => Cow::Owned(thin.bytes()),
        }
    }

    /// Lets `look` see the bytes. Those of a pattern are generated where it sees them, and moved nowhere.
    pub fn with_bytes<T>(&self, look: impl FnOnce(&PageBytes) -> T) -> T {
        match &self.0 {
            Content::Zeros => look(&ZERO_BYTES),
            Content::Pattern(pattern) => {
                let mut bytes = [0; PAGE_SIZE];
                pattern.write_to(&mut bytes);
                look(&bytes)
            }
            Content::Bytes(stored) => look(&stored.bytes),
            Content::Thin(thin) => look(&thin.bytes()),
        }
    }

    /// So many bytes from byte `at` on. Of a pattern it generates the others, too; of a thin page it does not.
    ///
    /// # Panics
    /// If they reach beyond the page.
    pub fn read_at<const COUNT: usize>(&self, at: usize) -> [u8; COUNT] {
        match &self.0 {
            Content::Thin(thin) => thin.read_at(at),
            _ => self.with_bytes(|bytes| bytes[at..at + COUNT].try_into().expect("as many bytes")),
        }
    }

    /// The first four bytes. Of a pattern it generates no others.
    pub fn first_bytes(&self) -> [u8; 4] {
        let mut first = [0; 4];
        match &self.0 {
            Content::Zeros => (),
            Content::Pattern(pattern) => {
                let (random, mut state) = (pattern.random_bytes().min(4), pattern.seed);
                first[..random].copy_from_slice(&split_mix(&mut state).to_le_bytes()[..random]);
            }
            Content::Bytes(stored) => first.copy_from_slice(&stored.bytes[..4]),
            Content::Thin(thin) => first.copy_from_slice(&thin.head[..4]),
        }
        first
    }

    /// The bytes, to change; copied first if another handle shares them.
    pub fn bytes_mut(&mut self) -> &mut PageBytes {
        if !matches!(self.0, Content::Bytes(_)) {
            let mut stored = Stored::new(ZERO_BYTES);
            let zeros = &mut Arc::get_mut(&mut stored).expect("no other handle has it yet").bytes;
            match &self.0 {
                Content::Pattern(pattern) => pattern.write_to(zeros),
                Content::Thin(thin) => thin.write_to(zeros),
                Content::Zeros | Content::Bytes(_) => (),
            }
            self.0 = Content::Bytes(stored);
        }
        let Content::Bytes(stored) = &mut self.0 else { unreachable!("made into bytes above") };
        let Stored { bytes, sums } = Arc::make_mut(stored);
        *sums = Sums::default();
        bytes
    }

    /// Copies `bytes` to `offset` in the page.
    ///
    /// # Panics
    /// If they reach beyond the page.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Whether all bytes are zero. Reads the bytes only if the handle does not say.
    pub fn is_zeros(&self) -> bool {
        match &self.0 {
            Content::Zeros => true,
            Content::Pattern(pattern) => pattern.compressible_percent >= 100,
            Content::Bytes(stored) => stored.bytes == ZERO_BYTES,
            Content::Thin(thin) => thin.is_zeros(),
        }
    }

    /// Whether the handle holds bytes in memory, alone or shared; zeros and patterns hold none.
    pub const fn takes_memory(&self) -> bool {
        matches!(self.0, Content::Bytes(_) | Content::Thin(_))
    }

    /// Whether both handles name the same content for certain, without reading the bytes.
    pub fn same_handle(&self, other: &Page) -> bool {
        match (&self.0, &other.0) {
            (Content::Zeros, Content::Zeros) => true,
            (Content::Pattern(a), Content::Pattern(b)) => a == b,
            (Content::Bytes(a), Content::Bytes(b)) => Arc::ptr_eq(a, b),
            (Content::Thin(a), Content::Thin(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The recipe, if the handle is one.
    pub const fn recipe(&self) -> Option<Pattern> {
        match self.0 {
            Content::Pattern(pattern) => Some(pattern),
            Content::Zeros | Content::Bytes(_) | Content::Thin(_) => None,
        }
    }

    /// CRC32C of the bytes, continued from the register `!0`, to compare content cheaply.
    pub fn digest(&self) -> u32 {
        match &self.0 {
            Content::Bytes(stored) => stored.sums.digest(|| crc32c(!0, &stored.bytes)),
            Content::Thin(thin) => thin.sums.digest(|| crc32c(!0, &thin.bytes())),
            Content::Zeros | Content::Pattern(_) => self.with_bytes(|bytes| crc32c(!0, bytes)),
        }
    }

    /// CRC32C of the bytes, continued from `register`: what [`crc32c`] gives, from the digest alone.
    pub fn crc32c(&self, register: u32) -> u32 {
        crc32c_of_page(register, self.digest())
    }

    /// A hash of 64 bits of the bytes: equal bytes have equal hashes, whatever the handle.
    pub fn content_hash(&self) -> u64 {
        match &self.0 {
            Content::Bytes(stored) => stored.sums.hash(|| content_hash_of(&stored.bytes)),
            Content::Thin(thin) => thin.sums.hash(|| content_hash_of(&thin.bytes())),
            Content::Zeros => HASH_OF_ZEROS,
            Content::Pattern(_) if self.is_zeros() => HASH_OF_ZEROS,
            Content::Pattern(_) => self.with_bytes(|bytes| hash_of(bytes)),
        }
    }
}

impl PartialEq for Page {
    fn eq(&self, other: &Page) -> bool {
        self.same_handle(other) || self.bytes() == other.bytes()
    }
}

impl Eq for Page {}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Content::Zeros => write!(f, "zeros"),
            Content::Pattern(pattern) => write!(f, "{pattern:?}"),
            Content::Bytes(_) | Content::Thin(_) => write!(f, "bytes #{:08x}", self.digest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_frozen() {
        let mut page = Page::from_slice(b"old");
        let frozen = page.clone();
        page.write(0, b"new");
        assert_eq!(&frozen.bytes()[..3], b"old");
        assert_eq!(&page.bytes()[..3], b"new");
    }

    #[test]
    fn a_thin_page_is_the_page_that_it_was() {
        let (mut bytes, mut empty) = ([0; PAGE_SIZE], Page::new([0; PAGE_SIZE]));
        [3, HEAD - 1, PAGE_SIZE - TAIL, PAGE_SIZE - 1].into_iter().for_each(|at| bytes[at] = 7);
        let (page, mut thin) = (Page::new(bytes), Page::new(bytes));
        [&mut thin, &mut empty].into_iter().for_each(Page::thin);
        assert!(matches!(thin.0, Content::Thin(_)) && thin.takes_memory() && !thin.is_zeros() && empty.is_zeros());
        assert_eq!((page.digest(), page.content_hash()), (thin.digest(), thin.content_hash()));
        assert_eq!(empty.content_hash(), Page::ZEROS.content_hash());
        assert_eq!((page.first_bytes(), &page), (thin.first_bytes(), &thin));
        for at in 0..=PAGE_SIZE - 8 {
            assert_eq!(thin.read_at::<8>(at), bytes[at..at + 8], "{at}");
        }
        let frozen = thin.clone();
        thin.write(HEAD, b"x");
        assert_eq!((frozen.bytes()[HEAD], thin.bytes()[HEAD]), (0, b'x'));
        thin.thin();
        assert!(matches!(thin.0, Content::Bytes(_)), "its middle is not zeros");
    }

    #[test]
    fn a_pattern_equals_its_bytes() {
        let pattern = Pattern { seed: 7, compressible_percent: 50 };
        let page = Page::pattern(pattern);
        assert_eq!(page, Page::new(pattern.bytes()));
        assert_ne!(page, Page::pattern(Pattern { seed: 8, compressible_percent: 50 }));
        assert!(page.bytes()[2048..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn every_way_to_the_bytes_of_a_pattern_gives_the_same() {
        for compressible_percent in 0..=100 {
            let pattern = Pattern { seed: 11 + u64::from(compressible_percent), compressible_percent };
            let page = Page::pattern(pattern);
            let bytes = pattern.bytes();
            assert_eq!(page.with_bytes(|seen| *seen), bytes);
            assert_eq!(page.first_bytes(), bytes[..4]);
            for start in [0, 1, 7, 8, 2040, 2047, 2048, 2049, 4090, 4096] {
                for end in [start, start + 1, start + 9, 2050, 4093, 4096].map(|end| end.clamp(start, PAGE_SIZE)) {
                    assert_eq!(pattern.part(start..end), bytes[start..end], "{start}..{end} of {pattern:?}");
                }
            }
            assert_eq!(*page.clone().bytes_mut(), bytes);
        }
        assert_eq!((Page::ZEROS.first_bytes(), Page::from_slice(b"page").first_bytes()), ([0; 4], *b"page"));
    }

    #[test]
    fn the_bytes_of_a_recipe_never_change() {
        let digest = |compressible_percent| Page::pattern(Pattern { seed: 7, compressible_percent }).digest();
        assert_eq!([0, 50, 99].map(digest), [0x727d_b7bc, 0xa935_9e53, 0x3c61_daf8]);
    }

    #[test]
    fn a_page_that_nobody_shares_forgets_what_it_remembered() {
        let mut page = Page::from_slice(b"some bytes");
        for change in 0..4_u8 {
            let before = (page.digest(), page.content_hash());
            page.write(9, &[change]);
            let fresh = Page::new(*page.bytes());
            assert_eq!((page.digest(), page.content_hash()), (fresh.digest(), fresh.content_hash()));
            assert_ne!((page.digest(), page.content_hash()), before);
        }
    }

    #[test]
    fn what_a_page_remembers_is_of_its_bytes_as_they_are() {
        let mut page = Page::from_slice(b"some bytes");
        for change in 0..4_u8 {
            let frozen = page.clone();
            let before = (frozen.digest(), frozen.content_hash());
            page.write(9, &[change]);
            let (fresh, register) = (Page::new(*page.bytes()), 0x0bad_cafe_u32.rotate_left(u32::from(change)));
            for _ in 0..2 {
                assert_eq!(page.digest(), crc32c(!0, &page.bytes()[..]));
                assert_eq!(page.crc32c(register), crc32c(register, &page.bytes()[..]));
                assert_eq!(page.content_hash(), fresh.content_hash());
            }
            assert_eq!((frozen.digest(), frozen.content_hash()), before);
            assert_ne!(before, (page.digest(), page.content_hash()));
        }
    }

    #[test]
    fn sums_do_not_depend_on_the_handle() {
        let patterns = [0, 50, 100].map(|compressible_percent| Pattern { seed: 3, compressible_percent });
        let handles = patterns.map(|pattern| (Page::pattern(pattern), Page::new(pattern.bytes())));
        for (one, other) in handles.into_iter().chain([(Page::ZEROS, Page::new(ZERO_BYTES))]) {
            assert_eq!((one.content_hash(), one.digest()), (other.content_hash(), other.digest()));
            assert_eq!(one.crc32c(7), crc32c(7, &other.bytes()[..]));
        }
    }

    #[test]
    fn a_fully_compressible_pattern_is_zeros() {
        let page = Page::pattern(Pattern { seed: 7, compressible_percent: 100 });
        assert!(page.is_zeros());
        assert_eq!(page, Page::ZEROS);
    }
}
