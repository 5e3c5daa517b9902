//! Seeded mutations of images, viewed with and without a rescue: no panic, no endless loop, bounded memory; any error
//! is fine.
//!
//! Seed and number identify a case: `ONEWRITE_SEED`, `ONEWRITE_FIRST` and `ONEWRITE_CASES=1` replay it.

use std::cell::RefCell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_block::{Choices, Executor, Geometry, Image, Lpn, PAGE_SIZE, Page, RamDisk};
use onewrite_fs::ext4::view::{ImageView, ViewOptions};
use onewrite_fs::{FileKind, FileView, FsResult, Ino, Manner, SeekTarget};

use crate::support::volume::load;
use crate::support::{Scratch, many, text};
use crate::{attribute, make};

/// Requests after which the device fails: many times the need of a sound image.
const REQUESTS_MAX: u64 = 40_000;
/// Most names in one walk.
const NAMES_MAX: usize = 400;
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
            _ => {
                let size = [1, 2, 4, 8][choices.index(4)];
                let used: Vec<usize> = (0..PAGE_SIZE / size).filter(|at| bytes[at * size] != 0).collect();
                let at =
                    if used.is_empty() { choices.index(PAGE_SIZE / size) } else { used[choices.index(used.len())] };
                let value = match choices.index(6) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => 1 << choices.below(64),
                    3 => choices.below(9000),
                    4 => u64::from(bytes[at * size]) + 1,
                    _ => choices.bits(),
                };
                bytes[at * size..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        image.set(Lpn(page), Page::new(bytes));
    }
    image
}

async fn look_at(view: &ImageView, ino: Ino) -> FsResult<FileKind> {
    let attributes = view.attributes(ino).await?;
    for name in view.extended_attributes(ino).await? {
        let _ = view.extended_attribute(ino, &name).await;
    }
    match attributes.kind {
        FileKind::Regular => {
            view.read(ino, 0, 64 * 1024, Manner::default()).await?;
            view.read(ino, attributes.size.saturating_sub(5000), 9000, Manner::default()).await?;
            let mut at = 0;
            for _ in 0..6 {
                let Ok(data) = view.seek(ino, at, SeekTarget::Data).await else { break };
                let Ok(hole) = view.seek(ino, data, SeekTarget::Hole).await else { break };
                assert!(at <= data && data <= hole, "seeking goes back from {at} to {data} to {hole}");
                at = hole;
            }
        }
        FileKind::Symlink => drop(view.read_link(ino).await?),
        _ => (),
    }
    Ok(attributes.kind)
}

/// Reads everything that has a name; returns the number of failed reads.
async fn walk(view: &ImageView) -> u64 {
    let (mut pending, mut seen, mut failures) = (vec![view.root()], 0, 0);
    let _ = view.space().await;
    while let Some(ino) = pending.pop() {
        if look_at(view, ino).await.map_err(|_| failures += 1) != Ok(FileKind::Directory) {
            continue;
        }
        let mut cursor = 0;
        while seen < NAMES_MAX {
            let entries = match view.read_directory(ino, cursor).await {
                Ok(entries) if !entries.is_empty() => entries,
                Ok(_) => break,
                Err(_) => {
                    failures += 1;
                    break;
                }
            };
            let next = entries.last().expect("not empty").next;
            assert!(next > cursor, "listing {ino} stays at {cursor}");
            (cursor, seen) = (next, seen + entries.len());
            pending.extend(entries.into_iter().filter(|entry| !entry.name.starts_with(b".")).map(|entry| entry.ino));
        }
    }
    failures
}

/// Views an image. 0: the view refused it; 1: a read failed; 2: all reads succeeded. Error: a panic or an endless wait.
fn view(image: Image, is_rescue: bool) -> Result<usize, String> {
    let geometry = Geometry::plain("ram", image.pages());
    let disk = Faulty::new(Box::new(RamDisk::with_image(image, geometry)), FaultPlan::of(Fault::From(REQUESTS_MAX)));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let end = Rc::new(RefCell::new(0));
    let slot = Rc::clone(&end);
    let work = async move {
        let options = ViewOptions { is_rescue, cache_pages: 64 };
        if let Ok(view) = ImageView::open(&port, options).await {
            *slot.borrow_mut() = if walk(&view).await + view.losses().count > 0 { 1 } else { 2 };
        }
    };
    match catch_unwind(AssertUnwindSafe(|| executor.block_on(work))) {
        Ok(outcome) => outcome.map(|()| *end.borrow()).map_err(|halt| halt.to_string()),
        Err(_) => {
            std::mem::forget(executor);
            Err("panic".into())
        }
    }
}

fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
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
            match view(image.clone(), is_rescue) {
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
