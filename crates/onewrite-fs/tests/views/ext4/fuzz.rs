//! Seeded mutations of images, viewed with and without a rescue: no panic, no endless loop, bounded memory; any error
//! is fine.
//!
//! Seed and number identify a case: `ONEWRITE_SEED`, `ONEWRITE_FIRST` and `ONEWRITE_CASES=1` replay it.

use std::fs;

use onewrite_block::{Choices, DevicePort, Image, Lpn, Page};
use onewrite_fs::ext4::view::{ImageView, ViewOptions};

use super::{attribute, make};
use crate::mutated::{change, end_of, memory_kib, number_from, walk};
use crate::support::volume::load;
use crate::support::{Scratch, many, text};

const MEMORY_MAX_KIB: u64 = 1024 * 1024;

const KINDS: [(&str, &str); 6] = [
    ("ext2-1k", "-t ext2 -b 1024"),
    ("ext3-1k", "-t ext3 -b 1024 -J size=1"),
    ("ext4-inline", "-t ext4 -b 1024 -O inline_data,^metadata_csum,uninit_bg -J size=1"),
    ("ext4-meta-bg", "-t ext4 -b 2048 -g 1024 -O meta_bg,^resize_inode,ea_inode,^has_journal"),
    ("ext4-4k", "-t ext4 -b 4096 -J size=4"),
    ("bigalloc", "-t ext4 -b 1024 -C 4096 -O bigalloc,^metadata_csum -J size=1"),
];

/// An image of a small tree, and its metadata pages.
struct Specimen {
    name: &'static str,
    image: Image,
    pages: Vec<u64>,
}

fn specimen(scratch: &Scratch, name: &'static str, arguments: &str) -> Specimen {
    let (tree, path) = (scratch.path(&format!("{name}-tree")), scratch.path(name));
    fs::create_dir_all(tree.join("sub/deep")).expect("directories");
    fs::write(tree.join("sub/file"), vec![0; 300_000]).expect("file");
    fs::write(tree.join("small"), b"small").expect("file");
    fs::write(tree.join("of-150"), vec![1; 150]).expect("file");
    crate::support::sparse(&tree.join("pieces"), 300);
    many(&tree.join("many"), 150, 60);
    many(&tree.join("few"), 4, 10);
    std::os::unix::fs::symlink("small", tree.join("short")).expect("link");
    std::os::unix::fs::symlink("x".repeat(300), tree.join("long")).expect("link");
    attribute(&tree.join("small"), "user.value", 600);
    make(&path, &format!("{arguments} -d {}", text(&tree)), "16M");
    let image = load(&path);
    let pages: Vec<u64> = image.written().filter(|(_, page)| !page.is_zeros()).map(|(lpn, _)| lpn.0).collect();
    Specimen { name, image, pages }
}

fn mutate(specimen: &Specimen, choices: &mut Choices) -> Image {
    let mut image = specimen.image.clone();
    for _ in 0..=choices.index(6) {
        // The first pages hold superblock, descriptors and inode tables: half of all hits go there.
        let near = choices.chance(1, 2);
        let bound = if near { specimen.pages.len().min(24) } else { specimen.pages.len() };
        let page = specimen.pages[choices.index(bound)];
        let mut bytes = image.page(Lpn(page)).bytes().into_owned();
        match choices.index(8) {
            0 => {
                let other = specimen.pages[choices.index(specimen.pages.len())];
                bytes = image.page(Lpn(other)).bytes().into_owned();
            }
            1 => bytes.fill(choices.bits() as u8),
            _ => change(&mut bytes, choices),
        }
        image.set(Lpn(page), Page::new(bytes));
    }
    image
}

async fn viewed(port: &DevicePort, is_rescue: bool) -> usize {
    match ImageView::open(port, ViewOptions { is_rescue, cache_pages: 64 }).await {
        Ok(view) if walk(&view).await + view.losses().count > 0 => 1,
        Ok(_) => 2,
        Err(_) => 0,
    }
}

#[test]
fn mutated_images_are_viewed_without_panic_and_to_an_end() {
    let scratch = Scratch::new("view-fuzz");
    let specimens: Vec<Specimen> = KINDS.iter().map(|(name, arguments)| specimen(&scratch, name, arguments)).collect();
    let (seed, first, cases) =
        (number_from("ONEWRITE_SEED", 1), number_from("ONEWRITE_FIRST", 0), number_from("ONEWRITE_CASES", 1200));
    let mut ends = [0_u64; 3];
    for case in first..first + cases {
        let mut choices = Choices::new(seed).stream("view", case);
        let specimen = &specimens[choices.index(specimens.len())];
        let image = mutate(specimen, &mut choices);
        for is_rescue in [false, true] {
            match end_of(image.clone(), async move |port| viewed(port, is_rescue).await) {
                Ok(end) => ends[end] += 1,
                Err(problem) => panic!("seed {seed}, case {case} ({}, rescue {is_rescue}): {problem}", specimen.name),
            }
        }
    }
    eprintln!("seed {seed}: {cases} cases from {first}: refused, failed somewhere, read: {ends:?}");
    assert!(cases < 1000 || ends.iter().all(|end| *end > cases / 20), "{ends:?}");
    let memory = memory_kib();
    assert!(memory < MEMORY_MAX_KIB, "{memory} KiB");
}
