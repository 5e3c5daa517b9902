//! Seeded damage: a field or a bit of one structure is changed, and fsck.f2fs and the checker judge the image.
//!
//! Seed and number identify a case: `ONEWRITE_SEED`, `ONEWRITE_FIRST` and `ONEWRITE_CASES=1` replay it.

use std::fs;
use std::path::Path;

use onewrite_block::Choices;
use onewrite_fs::BlockNo;
use onewrite_fs::f2fs::format::dentry::{BLOCK_SLOTS, Shape, is_used};
use onewrite_fs::f2fs::format::inode::CHECKSUM;
use onewrite_fs::f2fs::format::sit::{self, test_bit};
use onewrite_fs::f2fs::format::{DataAddress, Inode, Nid, SegmentNo, nat};

use super::{MIB, checked, grow};
use crate::support::Scratch;
use crate::support::f2fs::{Editor, fill, judged, make};
use crate::support::volume::load;

/// Where damage is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Superblock,
    Checkpoint,
    CheckpointUnsealed,
    Nat,
    Sit,
    Summary,
    Inode,
    InodeUnsealed,
    Node,
    Footer,
    Names,
}

const TARGETS: [Target; 11] = [
    Target::Superblock,
    Target::Checkpoint,
    Target::CheckpointUnsealed,
    Target::Nat,
    Target::Sit,
    Target::Summary,
    Target::Inode,
    Target::InodeUnsealed,
    Target::Node,
    Target::Footer,
    Target::Names,
];

/// A sound image and what is where in it.
struct Specimen {
    editor: Editor,
    inodes: Vec<Nid>,
    /// Direct and indirect nodes.
    nodes: Vec<Nid>,
    /// Blocks of names.
    names: Vec<BlockNo>,
}

impl Specimen {
    fn new(scratch: &Scratch, arguments: &str) -> Specimen {
        let (tree, image) = (scratch.path("tree"), scratch.path("image"));
        if !tree.exists() {
            fs::create_dir(&tree).expect("directory");
            grow(&tree);
        }
        make(&image, 128 * MIB, arguments);
        fill(&image, &tree, "");
        let mut specimen = Specimen { editor: Editor::open(&image), inodes: vec![], nodes: vec![], names: vec![] };
        specimen.look();
        specimen
    }

    fn look(&mut self) {
        for nid in (3..2_000).map(Nid) {
            let (block, at) = self.editor.nat_place(nid);
            let entry = nat::entry(&self.editor.block(block)[at..], 0);
            let DataAddress::Block(_) = entry.address else { continue };
            match entry.ino == nid {
                true => self.inodes.push(nid),
                false => self.nodes.push(nid),
            }
        }
        for nid in self.inodes.clone() {
            let inode = self.editor.inode(nid);
            if inode.kind == onewrite_fs::FileKind::Directory && !inode.is_inline_dentry() {
                self.names.extend(blocks_of(&inode));
            }
        }
    }
}

fn blocks_of(inode: &Inode) -> Vec<BlockNo> {
    let addresses = (0..inode.address_count()).map(|index| inode.address(index));
    addresses
        .filter_map(|address| match address {
            DataAddress::Block(block) => Some(block),
            _ => None,
        })
        .collect()
}

/// A range of bytes of a field: first byte, number of bytes.
type Field = (usize, usize);

/// Changes a field; says how.
fn change(block: &mut [u8], (at, size): Field, choices: &mut Choices) -> String {
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&block[at..at + size]);
    let old = u64::from_le_bytes(bytes);
    let new = match choices.index(5) {
        0 => old ^ 1 << choices.index(size * 8),
        1 => old.wrapping_add(1),
        2 => old.wrapping_sub(1),
        3 => 0,
        _ => choices.bits(),
    };
    block[at..at + size].copy_from_slice(&new.to_le_bytes()[..size]);
    format!("byte {at}, {size} bytes: {old:#x} to {:#x}", new & (u64::MAX >> (64 - size * 8)))
}

fn pick<T: Copy>(from: &[T], choices: &mut Choices) -> T {
    from[choices.index(from.len())]
}

/// Fields of the superblock up to the extensions, by `dump.f2fs`.
fn superblock_field(choices: &mut Choices) -> Field {
    const FIELDS: [Field; 27] = [
        (0, 4),
        (8, 4),
        (12, 4),
        (16, 4),
        (20, 4),
        (24, 4),
        (28, 4),
        (32, 4),
        (36, 8),
        (44, 4),
        (48, 4),
        (52, 4),
        (56, 4),
        (60, 4),
        (64, 4),
        (68, 4),
        (72, 4),
        (76, 4),
        (80, 4),
        (84, 4),
        (88, 4),
        (92, 4),
        (96, 4),
        (100, 4),
        (104, 4),
        (1664, 4),
        (2180, 4),
    ];
    let (at, size) = pick(&FIELDS, choices);
    (1024 + at, size)
}

/// Fields of a checkpoint's head, and its bitmaps.
fn checkpoint_field(choices: &mut Choices) -> Field {
    const FIELDS: [Field; 22] = [
        (0, 8),
        (8, 8),
        (16, 8),
        (24, 4),
        (28, 4),
        (32, 4),
        (36, 4),
        (40, 4),
        (44, 4),
        (68, 2),
        (70, 2),
        (72, 2),
        (84, 4),
        (88, 4),
        (92, 4),
        (116, 2),
        (118, 2),
        (132, 4),
        (136, 4),
        (140, 4),
        (144, 4),
        (148, 4),
    ];
    pick(&FIELDS, choices)
}

/// Fields of an inode that say something about its content, its addresses and its nodes.
fn inode_field(choices: &mut Choices) -> Field {
    const FIELDS: [Field; 13] = [
        (0, 2),
        (2, 1),
        (3, 1),
        (12, 4),
        (16, 8),
        (24, 8),
        (72, 4),
        (76, 4),
        (80, 4),
        (84, 4),
        (88, 4),
        (347, 1),
        (360, 4),
    ];
    match choices.index(3) {
        0 => (360 + 4 * choices.index(12), 4),
        1 => (4052 + 4 * choices.index(5), 4),
        _ => pick(&FIELDS, choices),
    }
}

/// Damages one structure; says what was done.
fn damage(specimen: &Specimen, editor: &mut Editor, target: Target, choices: &mut Choices) -> String {
    match target {
        Target::Superblock => {
            let copy = BlockNo(choices.below(2));
            format!("copy {copy}, {}", change(editor.block(copy), superblock_field(choices), choices))
        }
        Target::Checkpoint => {
            let field = checkpoint_field(choices);
            let mut head = editor.block(editor.heads()[0]).to_vec();
            let told = change(&mut head, field, choices);
            let (at, size) = field;
            // Both packs hold the same after sload.f2fs.
            for pack in 0..2 {
                editor.checkpoint.pack = pack;
                editor.edit_checkpoint(|block| block[at..at + size].copy_from_slice(&head[at..at + size]));
            }
            told
        }
        Target::CheckpointUnsealed => {
            let head = pick(&editor.heads(), choices);
            change(editor.block(head), checkpoint_field(choices), choices)
        }
        Target::Nat => {
            let pool = if choices.chance(1, 2) { &specimen.inodes } else { &specimen.nodes };
            let nid = pick(pool, choices);
            let (block, at) = editor.nat_place(nid);
            let field = pick(&[(at + 1, 4), (at + 5, 4)], choices);
            format!("nid {nid}: {}", change(editor.block(block), field, choices))
        }
        Target::Sit => {
            let segment = SegmentNo(choices.below(u64::from(editor.layout.main_segments)) as u32);
            let (index, entry) = sit::position(segment);
            let copy = usize::from(test_bit(&editor.checkpoint.sit_bitmap, index as usize));
            let block = editor.layout.sit_copies(index)[copy];
            let at = entry * sit::ENTRY_SIZE;
            let field = if choices.chance(1, 2) { (at, 2) } else { (at + 2 + choices.index(64), 1) };
            format!("segment {segment}: {}", change(editor.block(block), field, choices))
        }
        Target::Summary => {
            let nid = pick(&specimen.nodes, choices);
            let block = if choices.chance(1, 2) { editor.node_block(nid) } else { pick(&specimen.names, choices) };
            let (segment, index) = editor.layout.position(block).expect("in the main area");
            let ssa = editor.layout.ssa + u64::from(segment.0);
            let field = pick(&[(index * 7, 4), (index * 7 + 5, 2), (4091, 1)], choices);
            format!("segment {segment}: {}", change(editor.block(ssa), field, choices))
        }
        Target::Inode | Target::InodeUnsealed => {
            let nid = pick(&specimen.inodes, choices);
            let block = editor.node_block(nid);
            let told = change(editor.block(block), inode_field(choices), choices);
            if target == Target::Inode {
                seal(editor, block, nid);
            }
            format!("inode {nid}: {told}")
        }
        Target::Node => {
            let nid = pick(&specimen.nodes, choices);
            let block = editor.node_block(nid);
            let used: Vec<usize> = (0..1018).filter(|at| editor.block(block)[at * 4..at * 4 + 4] != [0; 4]).collect();
            format!("node {nid}: {}", change(editor.block(block), (pick(&used, choices) * 4, 4), choices))
        }
        Target::Footer => {
            let pool = if choices.chance(1, 2) { &specimen.inodes } else { &specimen.nodes };
            let nid = pick(pool, choices);
            let block = editor.node_block(nid);
            let told = change(
                editor.block(block),
                pick(&[(4072, 4), (4076, 4), (4080, 4), (4084, 8), (4092, 4)], choices),
                choices,
            );
            if specimen.inodes.contains(&nid) {
                seal(editor, block, nid);
            }
            format!("node {nid}: {told}")
        }
        Target::Names => {
            let block = pick(&specimen.names, choices);
            let bytes = editor.block(block);
            let used: Vec<usize> = (0..BLOCK_SLOTS).filter(|slot| is_used(bytes, *slot)).collect();
            let slot = pick(&used, choices);
            let at = Shape::BLOCK.entries + slot * 11;
            let name = Shape::BLOCK.names + slot * 8;
            let field = pick(&[(at, 4), (at + 4, 4), (at + 8, 2), (at + 10, 1), (slot / 8, 1), (name, 1)], choices);
            format!("block {block}, slot {slot}: {}", change(bytes, field, choices))
        }
    }
}

/// Makes the checksum of an inode right again.
fn seal(editor: &mut Editor, block: BlockNo, nid: Nid) {
    use onewrite_fs::f2fs::format::Features;
    if editor.layout.features.contains(Features::INODE_CHECKSUM) {
        let layout = editor.layout.clone();
        let sum = onewrite_fs::f2fs::format::inode::checksum(editor.block(block), nid, &layout);
        editor.block(block)[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }
}

/// What both say about an image.
struct Verdicts {
    /// What was done.
    told: String,
    theirs: (bool, String),
    ours: Result<Vec<String>, String>,
}

impl Verdicts {
    fn ours_is_clean(&self) -> bool {
        self.ours.as_ref().is_ok_and(Vec::is_empty)
    }
}

fn judge(specimen: &Specimen, target: Target, path: &Path, choices: &mut Choices) -> Verdicts {
    let mut editor = Editor::of(specimen.editor.bytes.clone());
    let told = damage(specimen, &mut editor, target, choices);
    editor.save(path);
    let ours = checked(load(path));
    let ours = ours.map(|report| report.findings.iter().map(ToString::to_string).collect());
    Verdicts { told, theirs: judged(path), ours: ours.map_err(|error| error.to_string()) }
}

fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn damage_gets_the_verdict_of_fsck_f2fs() {
    let scratch = Scratch::new("f2fs-damage");
    let kinds = ["", "-O extra_attr,inode_checksum,sb_checksum,inode_crtime"];
    let specimens = kinds.map(|arguments| Specimen::new(&scratch, arguments));
    let (seed, first, cases) =
        (number_from("ONEWRITE_SEED", 1), number_from("ONEWRITE_FIRST", 0), number_from("ONEWRITE_CASES", 121));
    let (mut differ, mut stricter, mut both) = (Vec::new(), 0, [0_u32; 2]);
    for case in first..first + cases {
        let mut choices = Choices::new(seed).stream("f2fs-damage", case);
        let target = TARGETS[case as usize % TARGETS.len()];
        let specimen = &specimens[choices.index(2)];
        let verdicts = judge(specimen, target, &scratch.path("damaged"), &mut choices);
        match (verdicts.theirs.0, verdicts.ours_is_clean()) {
            (one, other) if one == other => both[usize::from(one)] += 1,
            (true, false) if is_stricter(target, &verdicts) => stricter += 1,
            (theirs, _) => differ.push(describe(case, target, theirs, &verdicts)),
        }
    }
    eprintln!("seed {seed}: {cases} cases from {first}: both damaged, both clean: {both:?}");
    eprintln!("{stricter} known to be judged more strictly; {} differ", differ.len());
    differ.iter().for_each(|line| eprintln!("{line}"));
    assert!(cases < 100 || both.iter().all(|count| u64::from(*count) > cases / 5), "{both:?}");
    assert!(differ.is_empty(), "{} verdicts differ", differ.len());
}

/// What fsck.f2fs passes over, though it changes what a reader may trust: positions in footers, and names that hold a
/// slash or a zero. docs/f2fs.md lists both.
fn is_stricter(target: Target, verdicts: &Verdicts) -> bool {
    let ours = verdicts.ours.as_ref().map(|findings| findings.join("\n")).unwrap_or_default();
    match target {
        Target::Footer => ours.contains("footer's offset"),
        Target::Names => ours.contains("a name holds a slash or a zero"),
        _ => false,
    }
}

fn describe(case: u64, target: Target, is_clean: bool, verdicts: &Verdicts) -> String {
    let lines = verdicts.theirs.1.lines().filter(|line| line.contains("[Fail]") || line.contains("[ASSERT]"));
    let theirs: Vec<&str> = if is_clean { Vec::new() } else { lines.take(3).collect() };
    let ours = format!("{:?}", verdicts.ours);
    format!("case {case}, {target:?}, {}: theirs {theirs:?}, ours {ours:.300}", verdicts.told)
}
