//! Seeded mutations of F2FS images, viewed and checked: no panic, no endless loop, bounded memory; any error is fine.
//!
//! Seed and number identify a case: `ONEWRITE_SEED`, `ONEWRITE_FIRST` and `ONEWRITE_CASES=1` replay it.

use std::fs;

use onewrite_block::{Choices, DevicePort, Image, Lpn, Page};
use onewrite_fs::AnyView;
use onewrite_fs::ext4::view::ViewOptions;
use onewrite_fs::f2fs::check::{CheckOptions, check};

use super::{MIB, grow};
use crate::mutated::{change, end_of, memory_kib, number_from, walk};
use crate::support::Scratch;
use crate::support::f2fs::{Editor, fill, make};
use crate::support::volume::load;

const MEMORY_MAX_KIB: u64 = 1024 * 1024;

const KINDS: [&str; 3] = ["", "-O extra_attr,flexible_inline_xattr,sb_checksum,inode_crtime", "-i"];

/// An image of a tree, and its metadata pages.
struct Specimen {
    image: Image,
    /// Both superblocks, the heads of the checkpoint in use and what lies between, valid blocks of NAT and SIT.
    near: Vec<u64>,
    /// All pages that are not zero.
    pages: Vec<u64>,
}

fn specimen(scratch: &Scratch, arguments: &str) -> Specimen {
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree).expect("directory");
    grow(&tree, 3_000_000);
    let _ = fs::remove_dir_all(tree.join("names-3000"));
    make(&path, 128 * MIB, arguments);
    fill(&path, &tree, "");
    let (image, editor) = (load(&path), Editor::open(&path));
    let pages: Vec<u64> = image.written().filter(|(_, page)| !page.is_zeros()).map(|(lpn, _)| lpn.0).collect();
    let [first, last] = editor.heads();
    let is_near = |page: &u64| *page < 2 || (first.0..=last.0).contains(page) || *page >= editor.layout.sit.0;
    let near = pages.iter().copied().filter(|page| is_near(page) && *page < editor.layout.main.start.0);
    let near = near.chain(pages.iter().copied().filter(|page| is_node(&image, *page))).collect();
    Specimen { image, near, pages }
}

/// Whether a page looks like a node: its footer names small numbers.
fn is_node(image: &Image, page: u64) -> bool {
    let bytes = image.page(Lpn(page)).bytes().into_owned();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    page >= 2048 && (3..4000).contains(&number(4072)) && (3..4000).contains(&number(4076))
}

fn mutate(specimen: &Specimen, choices: &mut Choices) -> Image {
    let mut image = specimen.image.clone();
    for _ in 0..=choices.index(6) {
        let pool = if choices.chance(3, 4) { &specimen.near } else { &specimen.pages };
        let page = pool[choices.index(pool.len())];
        let mut bytes = image.page(Lpn(page)).bytes().into_owned();
        match choices.index(8) {
            0 => bytes = image.page(Lpn(pool[choices.index(pool.len())])).bytes().into_owned(),
            1 => bytes.fill(choices.bits() as u8),
            _ => change(&mut bytes, choices),
        }
        image.set(Lpn(page), Page::new(bytes));
    }
    seal(image)
}

/// Makes checksums of checkpoint heads right again, so that what they protect is tried, too.
fn seal(mut image: Image) -> Image {
    use onewrite_fs::f2fs::format::checkpoint::head_checksum;
    for page in [512, 1024].into_iter().flat_map(|start| (start..start + 8).map(Lpn)) {
        let mut bytes = image.page(page).bytes().into_owned();
        let offset = u32::from_le_bytes(bytes[164..168].try_into().expect("four bytes")) as usize;
        if (192..=4092).contains(&offset) && offset.is_multiple_of(4) {
            let sum = head_checksum(&bytes, offset);
            bytes[offset..offset + 4].copy_from_slice(&sum.to_le_bytes());
            image.set(page, Page::new(bytes));
        }
    }
    image
}

async fn viewed(port: &DevicePort) -> usize {
    match AnyView::open(port, ViewOptions::default()).await {
        Ok(view) if walk(&view).await + view.losses().count > 0 => 1,
        Ok(_) => 2,
        Err(_) => 0,
    }
}

/// The checker of a damaged image, which a view may refuse or not.
async fn judged(port: &DevicePort) -> usize {
    match check(port, &CheckOptions { findings_max: 20 }).await {
        Ok(report) if report.is_clean() => 2,
        Ok(_) => 1,
        Err(_) => 0,
    }
}

#[test]
fn mutated_images_are_viewed_and_checked_without_panic_and_to_an_end() {
    let scratch = Scratch::new("f2fs-fuzz");
    let specimens = KINDS.map(|arguments| specimen(&scratch, arguments));
    let (seed, first, cases) =
        (number_from("ONEWRITE_SEED", 1), number_from("ONEWRITE_FIRST", 0), number_from("ONEWRITE_CASES", 2_000));
    let (mut ends, mut verdicts) = ([0_u64; 3], [0_u64; 3]);
    for case in first..first + cases {
        let mut choices = Choices::new(seed).stream("f2fs", case);
        let specimen = &specimens[choices.index(specimens.len())];
        let image = mutate(specimen, &mut choices);
        let judged = end_of(image.clone(), judged).unwrap_or_else(|told| panic!("seed {seed}, case {case}: {told}"));
        let end = end_of(image, viewed).unwrap_or_else(|told| panic!("seed {seed}, case {case}, viewed: {told}"));
        (ends[end], verdicts[judged]) = (ends[end] + 1, verdicts[judged] + 1);
    }
    eprintln!("seed {seed}: {cases} cases from {first}: refused, failed somewhere, read: {ends:?}");
    eprintln!("checked: refused or ended by the device, damaged, clean: {verdicts:?}");
    let is_varied = ends[0] > 0 && ends[1..].iter().all(|end| *end > cases / 20);
    assert!(cases < 1000 || is_varied, "{ends:?}");
    let memory = memory_kib();
    assert!(memory < MEMORY_MAX_KIB, "{memory} KiB");
}
