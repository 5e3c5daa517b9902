//! Images made to mislead a reader: blocks named many times, chains that lead back, packs and names that are damaged.

use onewrite_fs::f2fs::format::DataAddress;
use onewrite_fs::f2fs::format::dentry::Shape;
use onewrite_fs::f2fs::format::sit::LogKind;
use onewrite_fs::{AnyView, FileView};

use super::MIB;
use super::crafted::{fsync_nodes, nid_of, not_unmounted, small};
use crate::seen::{by_view, names, on_view};
use crate::support::f2fs::{Editor, fill, make};
use crate::support::{Scratch, many};

/// Names that a listing of the root's directory `/names` returns, and the losses in words.
fn listing(image: &std::path::Path) -> (Vec<String>, Vec<String>) {
    let seen = on_view(image, false, async |view: &AnyView| {
        let directory = onewrite_fs::api::resolve(view, b"/names").await?;
        let found = names(view, directory).await?.into_iter().map(|(name, _)| name).collect();
        Ok((found, view.losses().told))
    });
    seen.expect("a view")
}

/// An image with a directory `/names` of 50 names in one block.
fn with_names(scratch: &Scratch) -> (std::path::PathBuf, Vec<String>) {
    let (tree, image) = (scratch.path("tree"), scratch.path("image"));
    many(&tree.join("names"), 50, 20);
    make(&image, 64 * MIB, "");
    fill(&image, &tree, "");
    let (names, losses) = listing(&image);
    assert_eq!((names.len(), losses.len()), (50, 0));
    (image, names)
}

/// A few blocks could otherwise name millions of entries.
#[test]
fn a_block_of_names_that_a_map_repeats_is_listed_where_its_names_belong() {
    let scratch = Scratch::new("f2fs-repeated");
    let (image, _) = with_names(&scratch);
    let nid = nid_of(&image, "/names");
    let mut editor = Editor::open(&image);
    let inode = editor.inode(nid);
    let DataAddress::Block(names) = inode.address(0) else { panic!("a block of names") };
    let (home, count) = (editor.node_block(nid), inode.address_count());
    let bytes = editor.block(home);
    for slot in 0..count {
        bytes[360 + slot * 4..][..4].copy_from_slice(&(names.0 as u32).to_le_bytes());
    }
    bytes[16..24].copy_from_slice(&(count as u64 * 4096).to_le_bytes());
    editor.seal_inode(nid);
    editor.save(&image);
    let (listed, losses) = listing(&image);
    // Two blocks are a bucket, and 873 blocks have nine levels.
    assert!((50..=50 * 2 * 9).contains(&listed.len()), "{} names", listed.len());
    assert!(losses.len() > 500 && losses[0].contains("another bucket than its hash says"), "{losses:?}");
}

#[test]
fn a_damaged_name_hides_itself_alone() {
    let scratch = Scratch::new("f2fs-name");
    let (image, names) = with_names(&scratch);
    let nid = nid_of(&image, "/names");
    let mut editor = Editor::open(&image);
    let DataAddress::Block(block) = editor.inode(nid).address(0) else { panic!("a block of names") };
    let at = |slot: usize| Shape::BLOCK.names + slot * 8;
    // The slots of `.` and `..` come first, then three for each name.
    let (broken, said) = (names[1].clone(), "a name holds a slash or a zero");
    assert_eq!(&editor.block(block)[at(5)..][..20], broken.as_bytes());
    editor.block(block)[at(5) + 3] = b'/';
    editor.save(&image);
    let (listed, losses) = listing(&image);
    assert_eq!(listed, names.into_iter().filter(|name| *name != broken).collect::<Vec<_>>());
    assert!(losses.len() == 1 && losses[0].contains(said), "{losses:?}");
    let seen = by_view(&image, false).expect("a view");
    assert_eq!(seen.losses.count, 1);
    let found = on_view(&image, false, async move |view: &AnyView| {
        let directory = onewrite_fs::api::resolve(view, b"/names").await?;
        Ok(view.lookup(directory, broken.as_bytes()).await.is_err())
    });
    assert!(found.expect("a view"));
}

#[test]
fn a_chain_of_fsyncs_that_leads_back_is_counted_once() {
    let scratch = Scratch::new("f2fs-chain");
    let image = small(&scratch, "");
    let mut editor = not_unmounted(&image);
    let log = editor.checkpoint.log(LogKind::WarmNode);
    let first = editor.layout.segment_start(log.segment) + u64::from(log.next);
    fsync_nodes(&mut editor, &[(first, 2, first + 1), (first + 1, 2, first + 2), (first + 2, 0, first)]);
    editor.save(&image);
    let seen = by_view(&image, false).expect("a view");
    assert!(seen.warnings.len() == 1 && seen.warnings[0].contains("2 nodes of fsyncs"), "{:?}", seen.warnings);
}

/// As if the pack had never been written: its blocks are zeros.
#[test]
fn a_pack_of_zeros_is_told() {
    let scratch = Scratch::new("f2fs-pack");
    let image = small(&scratch, "");
    let sound = by_view(&image, false).expect("a view");
    assert_eq!(sound.warnings, Vec::<String>::new());
    for pack in [0, 1] {
        let mut editor = Editor::open(&image);
        let head = editor.layout.pack(pack);
        editor.block(head).fill(0);
        let damaged = scratch.path("damaged");
        editor.save(&damaged);
        let seen = by_view(&damaged, false).expect("a view");
        let said = format!("checkpoint pack {pack}: checksum_offset is 0");
        assert!(seen.warnings.len() == 1 && seen.warnings[0].contains(&said), "{:?}", seen.warnings);
    }
}
