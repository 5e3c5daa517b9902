//! Large directories: names come, go and move, and the index that look-ups use is right after each change.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use onewrite_block::{Choices, Device};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position, RenameManner};

use crate::support::f2fs_volume::{Left, assert_clean, new_staged_disk, with_mount};
use crate::support::seeds;
use crate::support::volume::image;

const MIB: u64 = 1 << 20;
const CHANGES: usize = 4000;

type Names = BTreeMap<Vec<u8>, Ino>;

/// A name of one to three slots, in blocks that are nearly full now and then.
fn name(choices: &mut Choices) -> Vec<u8> {
    let number = choices.below(1500);
    format!("{number}{}", "x".repeat(number as usize % 17)).into_bytes()
}

async fn change(fs: &F2fs, directory: Ino, names: &mut Names, choices: &mut Choices) -> FsResult<()> {
    let (one, other) = (name(choices), name(choices));
    // Names become more and fewer in turn.
    let is_growing = (choices.below(100) < 70) == (names.len() < 1200);
    match (names.get(&one).copied(), is_growing) {
        (None, true) => _ = names.insert(one.clone(), fs.create(directory, &one, NewNode::FILE).await?),
        (Some(_), true) => {
            let refused = fs.create(directory, &one, NewNode::FILE).await;
            assert!(matches!(refused, Err(FsError::Exists(_))), "{refused:?}");
        }
        (Some(_), false) if choices.below(4) > 0 => {
            fs.unlink(directory, &one).await?;
            names.remove(&one);
        }
        (Some(ino), false) => {
            fs.rename((directory, &one), (directory, &other), RenameManner::Replace).await?;
            names.remove(&one);
            names.insert(other.clone(), ino);
        }
        (None, false) => assert!(matches!(fs.lookup(directory, &one).await, Err(FsError::NotFound(_)))),
    }
    let found = fs.lookup(directory, &other).await.ok();
    assert_eq!(found, names.get(&other).copied(), "{}", String::from_utf8_lossy(&other));
    fs.check().map_err(FsError::Invalid)
}

/// Changes the directory's names, or those of a new one, and compares all of them then.
async fn mounted(fs: Rc<F2fs>, mut names: Names, mut choices: Choices) -> FsResult<Names> {
    let directory = match fs.lookup(fs.root(), b"directory").await {
        Ok(directory) => directory,
        Err(_) => fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?,
    };
    for _ in 0..CHANGES {
        change(&fs, directory, &mut names, &mut choices).await?;
    }
    fs.sync().await?;
    let (mut listed, mut cursor) = (Names::new(), 0);
    loop {
        let entries = fs.read_directory(directory, cursor).await?;
        let Some(last) = entries.last() else { break };
        cursor = last.next;
        listed.extend(entries.into_iter().map(|entry| (entry.name, entry.ino)));
    }
    listed.retain(|name, _| name != b"." && name != b"..");
    assert!(listed == names, "{} names listed, {} expected", listed.len(), names.len());
    Ok(names)
}

fn run(seed: u64, cache_pages: usize, stage_bytes: u64) {
    let options = F2fsOptions { cache_pages, ..F2fsOptions::default() };
    let mut device: Box<dyn Device> = Box::new(new_staged_disk(96 * MIB + stage_bytes, stage_bytes));
    let mut names = Names::new();
    for mount in 0..2 {
        let (before, choices) = (names, Choices::new(seed).stream("mount", mount));
        (names, device) = with_mount(device, options, Left::Unmounted, |fs, _| mounted(fs, before, choices));
    }
    assert!(names.len() > 700, "{} names", names.len());
    assert_clean(&image(device));
}

#[test]
fn names_of_a_large_directory_are_found_where_they_are() {
    seeds(1, 2).for_each(|seed| run(seed, 16_384, 0));
}

#[test]
fn names_are_found_short_of_memory_and_over_a_staging_area() {
    run(3, 256, 0);
    run(4, 256, MIB);
}

/// Polls each in turn until both are ready.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other, mut first, mut second) = (pin!(one), pin!(other), None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(outcome) = one.as_mut().poll(context)
        {
            first = Some(outcome);
        }
        if second.is_none()
            && let Poll::Ready(outcome) = other.as_mut().poll(context)
        {
            second = Some(outcome);
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (first.expect("it is ready"), second.expect("it is ready"))
}

/// A sync loads the node of a file, to place its page, while the file is removed.
#[test]
fn a_file_may_go_while_a_sync_loads_its_node() {
    let device: Box<dyn Device> = Box::new(new_staged_disk(96 * MIB, 0));
    let ((), device) = with_mount(device, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let root = fs.root();
        let ino = fs.create(root, b"a", NewNode::FILE).await?;
        fs.write(ino, Position::At(0), Content::Bytes(&[7; 4096]), Manner::default()).await?;
        fs.fsync(root).await?;
        // The nodes leave memory, the dirty page stays.
        fs.drop_cached(Ino(1));
        fs.lookup(root, b"a").await?;
        let (synced, removed) = both(fs.sync(), fs.unlink(root, b"a")).await;
        assert_eq!((synced, removed), (Ok(()), Ok(())));
        assert!(matches!(fs.attributes(ino).await, Err(FsError::NotFound(_))));
        fs.check().map_err(FsError::Invalid)
    });
    assert_clean(&image(device));
}
