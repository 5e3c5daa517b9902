//! Name hashes: the keys of a directory's hash tree.
//!
//! Three functions, each with bytes as signed or unsigned, because C's `char` differed between machines. The lowest bit
//! of the key is 0: the tree uses it to mark equal hashes that continue in the next block.

use crate::ext4::format::superblock::FLAG_UNSIGNED_HASH;
use crate::tea;

/// The hash function of a directory, with the signedness of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashVersion {
    function: Function,
    unsigned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Legacy,
    HalfMd4,
    Tea,
}

/// The hash of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameHash {
    /// The key in the tree; its lowest bit is 0.
    pub major: u32,
    /// Orders names with the same key.
    pub minor: u32,
}

/// How the hash counts the bytes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashedBytes {
    /// From -128 to 127.
    Signed,
    /// From 0 to 255.
    Unsigned,
}

impl HashedBytes {
    /// As the flags of a superblock say.
    pub(crate) const fn of_flags(flags: u32) -> HashedBytes {
        if flags & FLAG_UNSIGNED_HASH != 0 { HashedBytes::Unsigned } else { HashedBytes::Signed }
    }
}

impl HashVersion {
    /// Half MD4 over signed bytes: the choice of `mke2fs` on machines whose `char` is signed.
    pub const HALF_MD4: HashVersion = HashVersion { function: Function::HalfMd4, unsigned: false };

    /// The version numbered `number` in a superblock or tree root. Some numbers do not say how bytes count; for them
    /// `bytes` (the superblock's flag) decides. `None` for unknown numbers.
    pub const fn from_disk(number: u8, bytes: HashedBytes) -> Option<HashVersion> {
        let function = match number {
            0 | 3 => Function::Legacy,
            1 | 4 => Function::HalfMd4,
            2 | 5 => Function::Tea,
            _ => return None,
        };
        Some(HashVersion { function, unsigned: matches!(bytes, HashedBytes::Unsigned) || number >= 3 })
    }

    /// The number to write into a new tree's root; it leaves the signedness to the superblock's flag.
    pub(crate) const fn root_number(self) -> u8 {
        match self.function {
            Function::Legacy => 0,
            Function::HalfMd4 => 1,
            Function::Tea => 2,
        }
    }

    /// The hash of `name`, keyed by the superblock's seed.
    pub fn hash(self, name: &[u8], seed: [u32; 4]) -> NameHash {
        let (major, minor) = match self.function {
            Function::Legacy => (self.legacy(name), 0),
            Function::HalfMd4 => self.half_md4(name, start_state(seed)),
            Function::Tea => self.tea(name, start_state(seed)),
        };
        // The greatest key means "end of the directory".
        let major = if major & !1 == 0xffff_fffe { 0xffff_fffc } else { major & !1 };
        NameHash { major, minor }
    }

    fn byte(self, byte: u8) -> u32 {
        if self.unsigned { byte.into() } else { byte as i8 as u32 }
    }

    fn legacy(self, name: &[u8]) -> u32 {
        let (mut newer, mut older) = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
        for &byte in name {
            let mut next = older.wrapping_add(newer ^ self.byte(byte).wrapping_mul(7_152_373));
            if next & 0x8000_0000 != 0 {
                next = next.wrapping_sub(0x7fff_ffff);
            }
            (newer, older) = (next, newer);
        }
        newer << 1
    }

    fn half_md4(self, name: &[u8], mut state: [u32; 4]) -> (u32, u32) {
        for start in chunk_starts(name, 32) {
            half_md4_rounds(&mut state, &self.words(&name[start..]));
        }
        (state[1], state[2])
    }

    fn tea(self, name: &[u8], mut state: [u32; 4]) -> (u32, u32) {
        for start in chunk_starts(name, 16) {
            tea::tea_rounds(&mut state, self.words(&name[start..]));
        }
        (state[0], state[1])
    }

    fn words<const COUNT: usize>(self, rest: &[u8]) -> [u32; COUNT] {
        tea::words(rest, |byte| self.byte(byte))
    }
}

/// Start of each piece of a name, in the order of hashing; no piece for an empty name.
fn chunk_starts(name: &[u8], size: usize) -> impl Iterator<Item = usize> {
    (0..name.len()).step_by(size)
}

/// The seed, or MD4's initial state if the seed is zero.
fn start_state(seed: [u32; 4]) -> [u32; 4] {
    if seed == [0; 4] { tea::START } else { seed }
}

/// Three rounds of eight steps of MD4 (Rivest, RFC 1320). Each round takes all eight words in its own order.
fn half_md4_rounds(state: &mut [u32; 4], words: &[u32; 8]) {
    let select = |x: u32, y: u32, z: u32| (x & y) | (!x & z);
    let majority = |x: u32, y: u32, z: u32| (x & y).wrapping_add((x ^ y) & z);
    let parity = |x: u32, y: u32, z: u32| x ^ y ^ z;
    let mut work = *state;
    round(&mut work, words, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19], 0, select);
    round(&mut work, words, [1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13], 0x5a82_7999, majority);
    round(&mut work, words, [3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15], 0x6ed9_eba1, parity);
    for (kept, new) in state.iter_mut().zip(work) {
        *kept = kept.wrapping_add(new);
    }
}

fn round(
    work: &mut [u32; 4],
    words: &[u32; 8],
    order: [usize; 8],
    turns: [u32; 4],
    constant: u32,
    mix: impl Fn(u32, u32, u32) -> u32,
) {
    for (step, word) in order.into_iter().enumerate() {
        let [a, b, c, d] = *work;
        let sum = a.wrapping_add(mix(b, c, d)).wrapping_add(words[word]).wrapping_add(constant);
        // The register that a step changes is `b` of the next step.
        *work = [d, sum.rotate_left(turns[step % 4]), b, c];
    }
}
