//! F2FS images made, filled and judged by f2fs-tools, and an editor of their structures.

use std::fs;
use std::path::Path;

use onewrite_fs::BlockNo;
use onewrite_fs::f2fs::format::checkpoint::{CHECKSUM_OFFSET, head_checksum};
use onewrite_fs::f2fs::format::dentry::{Shape, is_used};
use onewrite_fs::f2fs::format::inode::{self, CHECKSUM, Inode, inline};
use onewrite_fs::f2fs::format::sit::{self, test_bit};
use onewrite_fs::f2fs::format::superblock::RawSuperblock;
use onewrite_fs::f2fs::format::{Checkpoint, DataAddress, Layout, Nid, nat};

use super::{output, run, text};

const BLOCK: usize = 4096;

/// Makes an empty image with mkfs.f2fs.
pub fn make(image: &Path, size_bytes: u64, arguments: &str) {
    fs::File::create(image).and_then(|file| file.set_len(size_bytes)).expect("image");
    let mut all = vec!["-q", "-f"];
    all.extend(arguments.split_whitespace());
    all.push(text(image));
    run("mkfs.f2fs", &all);
}

/// Copies a tree into an image with sload.f2fs, and checks the result with fsck.f2fs.
pub fn fill(image: &Path, tree: &Path, arguments: &str) {
    let mut all = vec!["-P", "-f", text(tree)];
    all.extend(arguments.split_whitespace());
    all.push(text(image));
    // It ends with 1 if its own check at the end corrected something.
    let status = output("sload.f2fs", &all).status.code();
    assert!(matches!(status, Some(0 | 1)), "sload.f2fs: {status:?}");
    let (is_clean, said) = judged(image);
    assert!(is_clean, "after sload.f2fs: {said}");
}

/// Whether fsck.f2fs calls the image clean, and what it says.
pub fn judged(image: &Path) -> (bool, String) {
    let output = output("fsck.f2fs", &["--dry-run", text(image)]);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let is_clean = output.status.code() == Some(0) && !said.contains("[Fail]") && !said.contains("[ASSERT]");
    (is_clean, said)
}

/// Changes structures of an image in memory.
pub struct Editor {
    pub bytes: Vec<u8>,
    pub layout: Layout,
    pub checkpoint: Checkpoint,
}

impl Editor {
    pub fn open(image: &Path) -> Editor {
        Editor::of(fs::read(image).expect("image"))
    }

    pub fn of(bytes: Vec<u8>) -> Editor {
        let raw = RawSuperblock::in_block(&bytes[..BLOCK], 0).expect("superblock");
        let layout = Layout::decode(&raw, 0).expect("layout");
        let pack = |pack: u8| {
            let start = layout.pack(pack).0 as usize * BLOCK;
            Checkpoint::decode(&bytes[start..][..BLOCK * (1 + layout.payload_blocks as usize)], &layout, pack).ok()
        };
        // Of two with one version the first counts.
        let packs = [pack(1), pack(0)].into_iter().flatten();
        let checkpoint = packs.max_by_key(Checkpoint::version).expect("a sound pack");
        Editor { bytes, layout, checkpoint }
    }

    pub fn save(&self, image: &Path) {
        fs::write(image, &self.bytes).expect("image");
    }

    pub fn block(&mut self, block: BlockNo) -> &mut [u8] {
        &mut self.bytes[block.0 as usize * BLOCK..][..BLOCK]
    }

    /// Block and byte of the NAT's entry of `nid`. The image must have no journal.
    pub fn nat_place(&self, nid: Nid) -> (BlockNo, usize) {
        let (index, entry) = nat::position(nid);
        let copy = usize::from(test_bit(&self.checkpoint.nat_bitmap, index as usize));
        (self.layout.nat_copies(index)[copy], entry * nat::ENTRY_SIZE)
    }

    /// Where a node lies, by the NAT itself.
    pub fn node_block(&mut self, nid: Nid) -> BlockNo {
        let (block, at) = self.nat_place(nid);
        match nat::entry(&self.block(block)[at..], 0).address {
            DataAddress::Block(block) => block,
            other => panic!("node {nid}: {other:?}"),
        }
    }

    pub fn inode(&mut self, nid: Nid) -> Inode {
        let block = self.node_block(nid);
        let layout = self.layout.clone();
        Inode::decode_unverified(self.block(block), nid, &layout).expect("inode")
    }

    /// Puts a node into a block that nothing uses and names it in the NAT.
    pub fn put_node(&mut self, nid: Nid, owner: Nid, offset: u32, content: &[u8], at: BlockNo) {
        let (nat, place) = self.nat_place(nid);
        let entry = [&[0][..], &owner.0.to_le_bytes(), &(at.0 as u32).to_le_bytes()].concat();
        self.block(nat)[place..place + entry.len()].copy_from_slice(&entry);
        let block = self.block(at);
        block.fill(0);
        block[..content.len()].copy_from_slice(content);
        let footer = [nid.0, owner.0, offset << 3].map(u32::to_le_bytes).concat();
        block[4072..4084].copy_from_slice(&footer);
    }

    /// Makes the checksum of an inode right again.
    pub fn seal_inode(&mut self, nid: Nid) {
        let block = self.node_block(nid);
        self.seal_inode_in(block, nid);
    }

    /// The same for the inode in `block`, which the NAT need not name.
    pub fn seal_inode_in(&mut self, block: BlockNo, nid: Nid) {
        let layout = self.layout.clone();
        let inode = Inode::decode_unverified(self.block(block), nid, &layout).expect("inode");
        if inode.has_checksum(&layout) {
            let sum = inode::checksum(self.block(block), nid, &layout);
            self.block(block)[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// First and last block of the checkpoint in use.
    pub fn heads(&self) -> [BlockNo; 2] {
        self.heads_of(self.checkpoint.pack)
    }

    /// First and last block of a pack.
    pub fn heads_of(&self, pack: u8) -> [BlockNo; 2] {
        let start = self.layout.pack(pack);
        let total = &self.bytes[start.0 as usize * BLOCK + 136..][..4];
        [start, start + (u64::from(u32::from_le_bytes(total.try_into().expect("four bytes"))) - 1)]
    }

    /// Changes both heads of the checkpoint in use, and makes their checksums right again.
    pub fn edit_checkpoint(&mut self, edit: impl Fn(&mut [u8])) {
        self.edit_pack(self.checkpoint.pack, edit);
    }

    /// Changes both heads of a pack, and makes their checksums right again.
    pub fn edit_pack(&mut self, pack: u8, edit: impl Fn(&mut [u8])) {
        for head in self.heads_of(pack) {
            let block = self.block(head);
            edit(block);
            let offset = u32::from_le_bytes(block[164..168].try_into().expect("four bytes")) as usize;
            let offset = offset.min(CHECKSUM_OFFSET);
            let sum = head_checksum(block, offset);
            block[offset..offset + 4].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Moves the names of a directory from its block into its inode, with all counts. sload.f2fs makes no such
    /// directory. The image must have no extra attributes.
    pub fn move_names_into_inode(&mut self, nid: Nid) {
        let inode = self.inode(nid);
        let DataAddress::Block(block) = inode.address(0) else { panic!("a block of names") };
        let (names, shape) = (self.block(block).to_vec(), Shape::inline(INLINE_ROOM));
        let mut inside = vec![0; INLINE_ROOM];
        for slot in (0..shape.slots).filter(|slot| is_used(&names, *slot)) {
            inside[slot / 8] |= 1 << (slot % 8);
            let (from, to) = (Shape::BLOCK.entries + slot * 11, shape.entries + slot * 11);
            inside[to..to + 11].copy_from_slice(&names[from..from + 11]);
            let (from, to) = (Shape::BLOCK.names + slot * 8, shape.names + slot * 8);
            inside[to..to + 8].copy_from_slice(&names[from..from + 8]);
        }
        let home = self.node_block(nid);
        let bytes = self.block(home);
        bytes[3] |= inline::DENTRY;
        bytes[16..24].copy_from_slice(&(INLINE_ROOM as u64).to_le_bytes());
        bytes[24..32].copy_from_slice(&1_u64.to_le_bytes());
        bytes[360..364].fill(0);
        bytes[364..364 + INLINE_ROOM].copy_from_slice(&inside);
        let (segment, index) = self.layout.position(block).expect("in the main area");
        let (at, entry) = sit::position(segment);
        let copy = usize::from(test_bit(&self.checkpoint.sit_bitmap, at as usize));
        let home = self.layout.sit_copies(at)[copy];
        let entry = &mut self.block(home)[entry * sit::ENTRY_SIZE..];
        entry[0] -= 1;
        entry[2 + index / 8] &= !(0x80 >> (index % 8));
        self.edit_checkpoint(|head| head[16] -= 1);
    }
}

/// Bytes of an inode for names, without extra attributes and with room for extended ones.
pub const INLINE_ROOM: usize = (923 - 50 - 1) * 4;
