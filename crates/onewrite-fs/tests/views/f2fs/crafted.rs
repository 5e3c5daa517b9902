//! Images that f2fs-tools made, changed by hand.

use std::fs;
use std::path::Path;

use onewrite_fs::api::resolve;
use onewrite_fs::f2fs::format::layout::SEGMENT_BLOCKS;
use onewrite_fs::f2fs::format::node::XATTR_OFFSET;
use onewrite_fs::f2fs::format::sit::LogKind;
use onewrite_fs::f2fs::format::{DataAddress, Nid, NodePath, SegmentNo, xattr};
use onewrite_fs::{AnyView, BlockNo, FileView, FsError, Manner, SeekTarget};

use super::MIB;
use crate::seen::{by_view, on_view};
use crate::support::f2fs::{Editor, INLINE_ROOM, fill, judged, make};
use crate::support::{Scratch, many, output, text};

/// An image with the files `/file` (some blocks) and `/small`.
pub fn small(scratch: &Scratch, arguments: &str) -> std::path::PathBuf {
    let (tree, image) = (scratch.path("tree"), scratch.path("image"));
    fs::create_dir(&tree).expect("directory");
    fs::write(tree.join("file"), vec![5; 20_000]).expect("file");
    fs::write(tree.join("small"), b"small").expect("file");
    make(&image, 64 * MIB, arguments);
    fill(&image, &tree, "");
    image
}

pub fn nid_of(image: &Path, path: &'static str) -> Nid {
    let ino = on_view(image, false, async |view: &AnyView| resolve(view, path.as_bytes()).await);
    Nid::from_ino(ino.expect("a view"))
}

/// A block that nothing uses, in a segment that nothing uses.
fn free_block(editor: &Editor, index: u64) -> BlockNo {
    let used: Vec<SegmentNo> = LogKind::ALL.iter().map(|kind| editor.checkpoint.log(*kind).segment).collect();
    let free = (0..editor.layout.main_segments).rev().map(SegmentNo).find(|segment| !used.contains(segment));
    editor.layout.segment_start(free.expect("a segment")) + index
}

#[test]
fn a_damaged_superblock_is_replaced_by_its_copy() {
    let scratch = Scratch::new("f2fs-superblock");
    let image = small(&scratch, "-O extra_attr,sb_checksum");
    let sound = by_view(&image, false).expect("a view");
    let mut editor = Editor::open(&image);
    editor.block(BlockNo(0))[1024 + 0x60] ^= 1;
    editor.save(&image);
    let seen = by_view(&image, false).expect("a view");
    assert_eq!(seen.entries, sound.entries);
    assert!(seen.warnings.len() == 1 && seen.warnings[0].contains("superblock 0: checksum"), "{:?}", seen.warnings);
    editor.block(BlockNo(1))[1024 + 0x60] ^= 1;
    editor.save(&image);
    let error = by_view(&image, false).err().expect("an error").to_string();
    assert!(error.contains("superblock 0: checksum"), "{error}");
}

#[test]
fn of_two_checkpoints_the_newer_sound_one_counts() {
    let scratch = Scratch::new("f2fs-checkpoint");
    let image = small(&scratch, "");
    let sound = by_view(&image, false).expect("a view");
    let mut editor = Editor::open(&image);
    let heads = editor.heads();
    editor.block(heads[1])[0] ^= 1;
    editor.save(&image);
    let seen = by_view(&image, false).expect("a view");
    assert_eq!(seen.entries, sound.entries);
    assert!(seen.warnings.len() == 1 && seen.warnings[0].contains("checkpoint pack"), "{:?}", seen.warnings);
    let other = editor.layout.pack(1 - editor.checkpoint.pack);
    editor.block(other)[8] ^= 1;
    editor.save(&image);
    assert!(matches!(by_view(&image, false).err(), Some(FsError::Damaged { .. })));
}

/// Versions go round at their end.
#[test]
fn of_two_checkpoints_the_one_a_little_ahead_counts_where_versions_go_round() {
    let scratch = Scratch::new("f2fs-versions");
    let image = small(&scratch, "");
    let space = |image: &Path| on_view(image, false, async |view: &AnyView| view.space().await).expect("a view");
    let (sound, mut editor) = (space(&image), Editor::open(&image));
    let newer = editor.checkpoint.pack;
    editor.edit_pack(newer, |head| head[..8].copy_from_slice(&1_u64.to_le_bytes()));
    // The older pack counts another number of blocks.
    editor.edit_pack(1 - newer, |head| {
        head[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        head[16] ^= 1;
    });
    editor.save(&image);
    assert_eq!(space(&image), sound, "pack {newer} is in use");
}

/// With the flag, footers hold the lower half of the version, and above it the checkpoint's checksum.
#[test]
fn footers_hold_the_checksum_of_the_checkpoint_where_it_says_so() {
    let scratch = Scratch::new("f2fs-recovery");
    let image = small(&scratch, "");
    let mut editor = not_unmounted(&image);
    let version = editor.checkpoint.version() & 0xffff_ffff;
    // The upper half of the version does not count.
    editor.edit_checkpoint(|head| {
        head[132] |= 0x40;
        head[7] = 0x5a;
    });
    let head = editor.heads()[0];
    let offset = u32::from_le_bytes(editor.block(head)[164..168].try_into().expect("four bytes")) as usize;
    let sum = u32::from_le_bytes(editor.block(head)[offset..offset + 4].try_into().expect("four bytes"));
    let log = editor.checkpoint.log(LogKind::WarmNode);
    let first = editor.layout.segment_start(log.segment) + u64::from(log.next);
    for (footer, warnings) in [(version | u64::from(sum) << 32, 1), (version, 0), (version | 0x5a << 56, 0)] {
        put_synced(&mut editor, footer, &[(first, 2, first + 1)]);
        editor.save(&image);
        assert_eq!(by_view(&image, false).expect("a view").warnings.len(), warnings, "{footer:#x}");
    }
}

/// The image as if it had not been unmounted: no unmount, and no summaries of node logs that come with it.
pub fn not_unmounted(image: &Path) -> Editor {
    let mut editor = Editor::open(image);
    editor.edit_checkpoint(|head| head[132] &= !1);
    Editor::of(editor.bytes)
}

/// Writes nodes behind the checkpoint: where each lies, the flags of its footer, and where the next one lies.
pub fn fsync_nodes(editor: &mut Editor, nodes: &[(BlockNo, u32, BlockNo)]) {
    put_synced(editor, editor.checkpoint.footer_version(), nodes);
}

/// [`fsync_nodes`], with this version in their footers.
fn put_synced(editor: &mut Editor, version: u64, nodes: &[(BlockNo, u32, BlockNo)]) {
    for (at, flag, next) in nodes {
        let block = editor.block(*at);
        block[4080..4084].copy_from_slice(&flag.to_le_bytes());
        block[4084..4092].copy_from_slice(&version.to_le_bytes());
        block[4092..4096].copy_from_slice(&(next.0 as u32).to_le_bytes());
    }
}

#[test]
fn fsyncs_behind_the_checkpoint_are_told() {
    let scratch = Scratch::new("f2fs-synced");
    let image = small(&scratch, "");
    let mut editor = not_unmounted(&image);
    editor.save(&image);
    let seen = by_view(&image, false).expect("a view");
    assert_eq!(seen.warnings, Vec::<String>::new(), "nothing was synced");
    let log = editor.checkpoint.log(LogKind::WarmNode);
    let first = editor.layout.segment_start(log.segment) + u64::from(log.next);
    fsync_nodes(&mut editor, &[(first, 2, first + 1), (first + 1, 0, first + 2), (first + 2, 2, first + 7)]);
    editor.save(&image);
    let seen = by_view(&image, false).expect("a view");
    assert!(seen.warnings.len() == 1 && seen.warnings[0].contains("2 nodes of fsyncs"), "{:?}", seen.warnings);
}

/// A list of attributes with as many as fit `size` bytes.
fn list(size: usize) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
    let mut bytes = [&xattr::MAGIC.to_le_bytes()[..], &[0; 20]].concat();
    let mut expected = Vec::new();
    for number in 0_u8.. {
        let (name, value) = (format!("name-{number:03}"), vec![b'A' + number % 20; 40 + usize::from(number) * 3]);
        if bytes.len() + 4 + name.len() + value.len() + 8 > size {
            break;
        }
        bytes.extend([1, name.len() as u8, value.len() as u8, 0]);
        bytes.extend(name.as_bytes());
        bytes.extend(&value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        expected.push((format!("user.{name}"), value));
    }
    bytes.resize(size, 0);
    (bytes, expected)
}

#[test]
fn attributes_go_on_from_the_inode_into_their_node() {
    for arguments in ["", "-O extra_attr,flexible_inline_xattr,inode_checksum"] {
        let scratch = Scratch::new("f2fs-attributes");
        let image = small(&scratch, arguments);
        let nid = nid_of(&image, "/file");
        let mut editor = Editor::open(&image);
        let room = editor.inode(nid).inline_xattr().len();
        assert_eq!(room, 200, "{arguments}");
        let (bytes, expected) = list(room + 2_000);
        let (block, free) = (editor.node_block(nid), free_block(&editor, 7));
        editor.put_node(Nid(400), nid, XATTR_OFFSET, &bytes[room..], free);
        let inode = editor.block(block);
        inode[4052 - room..4052].copy_from_slice(&bytes[..room]);
        inode[76..80].copy_from_slice(&400_u32.to_le_bytes());
        editor.seal_inode(nid);
        editor.save(&image);
        let seen = by_view(&image, false).expect("a view");
        let file = seen.entries.iter().find(|entry| entry.path == "/file").expect("the file");
        assert_eq!(file.extended, expected, "{arguments}");
        // dump.f2fs prints the values in hexadecimal.
        let said = output("dump.f2fs", &["-i", &format!("{:x}", nid.0), text(&image)]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(said.matches("xattr: e_name_index:1").count(), expected.len(), "{said}");
        for (_, value) in &expected {
            assert!(said.contains(&value.iter().map(|byte| format!("{byte:02X}")).collect::<String>()), "{said}");
        }
    }
}

#[test]
fn maps_of_every_depth_are_followed() {
    let scratch = Scratch::new("f2fs-depth");
    let image = small(&scratch, "-O extra_attr,inode_checksum");
    let nid = nid_of(&image, "/file");
    let mut editor = Editor::open(&image);
    let inode = editor.inode(nid);
    let in_inode = inode.address_count() as u64;
    let DataAddress::Block(first) = inode.address(0) else { panic!("a block") };
    let n = 1018;
    let logicals = [in_inode + 3, in_inode + n + 9, in_inode + 2 * n, in_inode + 2 * n + n * n + 5 * n + 1]
        .into_iter()
        .chain([in_inode + 2 * n + 2 * n * n, in_inode + 2 * n + 2 * n * n + 700 * n * n + 1017 * n + 1017]);
    let logicals: Vec<u64> = logicals.collect();
    let (mut number, mut made) = (500, std::collections::BTreeMap::new());
    let inode_block = editor.node_block(nid);
    for (index, logical) in logicals.iter().enumerate() {
        let path = NodePath::of(*logical, in_inode).expect("a path");
        let mut above = (inode_block, 4052);
        for step in path.steps() {
            let at = *made.entry(step.offset).or_insert_with(|| {
                number += 1;
                let at = free_block(&editor, u64::from(number) - 400);
                editor.put_node(Nid(number), nid, step.offset, &[], at);
                let slot = above.1 + step.slot * 4;
                editor.block(above.0)[slot..slot + 4].copy_from_slice(&number.to_le_bytes());
                at
            });
            above = (at, 0);
        }
        let address = first.0 as u32 + index as u32 % 5;
        editor.block(above.0)[path.slot * 4..path.slot * 4 + 4].copy_from_slice(&address.to_le_bytes());
    }
    let size = (logicals[logicals.len() - 1] + 1) * 4096;
    editor.block(inode_block)[16..24].copy_from_slice(&size.to_le_bytes());
    editor.seal_inode(nid);
    editor.save(&image);
    assert!(number > 510 && u64::from(number) - 400 < SEGMENT_BLOCKS);
    let places = logicals.clone();
    let read = on_view(&image, false, async move |view: &AnyView| {
        let ino = resolve(view, b"/file").await?;
        let mut found = Vec::new();
        let mut at = 5 * 4096;
        for _ in &places {
            let data = view.seek(ino, at, SeekTarget::Data).await?;
            at = view.seek(ino, data, SeekTarget::Hole).await?;
            let content = view.read(ino, data - 4096, 3 * 4096, Manner::default()).await?.to_vec();
            let is_there = content[..4096].iter().all(|byte| *byte == 0) && content[4096] == 5;
            found.push((data / 4096, at / 4096, is_there));
        }
        Ok(found)
    });
    let expected: Vec<(u64, u64, bool)> = logicals.iter().map(|logical| (*logical, logical + 1, true)).collect();
    assert_eq!(read.expect("a view"), expected);
}

#[test]
fn a_node_is_followed_only_where_its_footer_says() {
    let scratch = Scratch::new("f2fs-footer");
    let image = small(&scratch, "");
    let nid = nid_of(&image, "/file");
    for (byte, value, said) in [(4072, 77, "footer's nid"), (4076, 77, "footer's ino"), (4080, 8, "footer's offset")] {
        let mut editor = Editor::open(&image);
        let block = editor.node_block(nid);
        editor.block(block)[byte] = value;
        let damaged = scratch.path("damaged");
        editor.save(&damaged);
        let error = by_view(&damaged, false).err().expect("an error").to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// Byte of an inode, its new value, and what is said of it.
const FOREIGN: [(usize, u8, &str); 4] = [
    (2, 0x04, "is encrypted; read it with Linux and its key"),
    (2, 0x40, "is sealed by verity; read it with Linux"),
    (80, 0x04, "is compressed; read it with Linux"),
    (83, 0x40, "folds case; read it with Linux"),
];

#[test]
fn files_of_unsupported_kinds_are_refused_one_by_one() {
    let scratch = Scratch::new("f2fs-foreign");
    let image = small(&scratch, "");
    let nid = nid_of(&image, "/file");
    for (byte, value, said) in FOREIGN {
        let mut editor = Editor::open(&image);
        let block = editor.node_block(nid);
        editor.block(block)[byte] = value;
        let foreign = scratch.path("foreign");
        editor.save(&foreign);
        let read = on_view(&foreign, false, async move |view: &AnyView| {
            let small = resolve(view, b"/small").await?;
            assert_eq!(view.read(small, 0, 9, Manner::default()).await?.to_vec(), b"small");
            view.read(nid.into(), 0, 9, Manner::default()).await
        });
        assert_eq!(read.expect_err("refused").to_string(), format!("unsupported: inode {nid} {said}"));
    }
}

#[test]
fn names_inside_an_inode_are_read() {
    let scratch = Scratch::new("f2fs-inside");
    let (tree, image) = (scratch.path("tree"), scratch.path("image"));
    many(&tree.join("few"), 40, 20);
    fs::create_dir(tree.join("few/deeper")).expect("directory");
    make(&image, 64 * MIB, "");
    fill(&image, &tree, "");
    let mut sound = by_view(&image, false).expect("a view").entries;
    let nid = nid_of(&image, "/few");
    let mut editor = Editor::open(&image);
    editor.move_names_into_inode(nid);
    editor.save(&image);
    let (is_clean, said) = judged(&image);
    assert!(is_clean, "{said}");
    let few = sound.iter_mut().find(|entry| entry.path == "/few").expect("the directory");
    (few.size, few.sectors) = (INLINE_ROOM as u64, 0);
    assert_eq!(by_view(&image, false).expect("a view").entries, sound);
    let found = on_view(&image, false, async |view: &AnyView| {
        let directory = resolve(view, b"/few").await?;
        assert!(view.lookup(directory, b"no such name").await.is_err());
        view.lookup(directory, b"deeper").await
    });
    assert_eq!(found.expect("a view"), resolve_in(&image, "/few/deeper"));
}

fn resolve_in(image: &Path, path: &'static str) -> onewrite_fs::Ino {
    nid_of(image, path).into()
}
