//! Recovery: a state is mounted again, its tree is read, its structure is checked; and what is known is remembered.
//!
//! The log is replayed on every distinct state. What comes after depends only on the blocks outside the log, and many
//! states agree on these once replayed, so it is done once for each such image: mount (orphans are finished), read the
//! tree, unmount, check.

use std::rc::Rc;

use onewrite_block::{Executor, Image, Lpn, Page};
use onewrite_fs::check::{CheckOptions, ReadBlocks, ReadError, check};
use onewrite_fs::ext4::{Ext4, MountOptions, replay};
use onewrite_fs::journal::Recovered;
use onewrite_fs::{FileKind, FileSystem, FsResult, Ino, Manner};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::disk::{Disk, Medium};
use crate::hash::page_hash;
use crate::model::{FileContent, Item, ItemKind, Listing};
use crate::options::ExploreOptions;
use crate::states::Sum;

/// Images remembered; then memory starts anew.
const REMEMBERED_MAX: usize = 20_000;

/// What a state turned out to hold.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) full: u64,
    pub(crate) shape: u64,
    pub(crate) names: u64,
    pub(crate) listing: Rc<Listing>,
    /// Why it cannot be recovered, or what a checker found.
    pub(crate) problem: Option<Problem>,
}

/// A promise that needs no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Recovery, mount or reading failed.
    Recovery(String),
    /// A checker found something.
    Structure(String),
}

/// A recovered state.
pub(crate) struct Outcome {
    pub(crate) found: Rc<Found>,
    /// What replaying the log did; `None` if it was empty.
    pub(crate) replayed: Option<Recovered>,
    /// The image after the log was replayed.
    pub(crate) image: Image,
}

/// Recovers states and remembers.
pub(crate) struct Recoverer<'a> {
    options: &'a ExploreOptions,
    remembered: FxHashMap<u64, Rc<Found>>,
    listings: FxHashMap<u64, Rc<Listing>>,
}

impl<'a> Recoverer<'a> {
    pub(crate) fn new(options: &'a ExploreOptions) -> Recoverer<'a> {
        Recoverer { options, remembered: FxHashMap::default(), listings: FxHashMap::default() }
    }

    /// Recovers `image`, whose hash is `sum`.
    pub(crate) fn recover(&mut self, image: Image, sum: Sum, log: &FxHashSet<Lpn>) -> Outcome {
        let before = image.clone();
        let medium = Medium::new(image);
        let disk = Disk::instant(&medium, &self.options.geometry);
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(disk));
        let replayed = executor.block_on(async move { replay(&port).await }).map_err(|halt| halt.to_string());
        drop(executor);
        let replayed = match replayed.and_then(|outcome| outcome.map_err(|error| error.to_string())) {
            Ok(replayed) => replayed,
            Err(error) => {
                let found = Rc::new(failed(error));
                return Outcome { found, replayed: None, image: before };
            }
        };
        let medium = std::mem::replace(&mut *medium.borrow_mut(), Medium::empty());
        let key = home_sum(&before, &medium, sum, log);
        let found = self.settle(&medium.image, key);
        Outcome { found, replayed, image: medium.image }
    }

    fn settle(&mut self, image: &Image, key: u64) -> Rc<Found> {
        if let Some(found) = self.remembered.get(&key) {
            return Rc::clone(found);
        }
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.clear();
            self.listings.clear();
        }
        let found = Rc::new(self.read(image));
        self.remembered.insert(key, Rc::clone(&found));
        found
    }

    /// Mounts an image with an empty log, reads it, unmounts it, and checks it before and after.
    fn read(&mut self, image: &Image) -> Found {
        if let Some(finding) = finding(image) {
            return Found { problem: Some(Problem::Structure(finding)), ..failed(String::new()) };
        }
        let (listing, image) = match self.finish(image) {
            Ok(finished) => finished,
            Err(error) => return failed(error),
        };
        let problem = finding(&image).map(Problem::Structure);
        let (full, shape, names) = (listing.full_hash(), listing.shape_hash(), listing.name_hash());
        let listing = Rc::clone(self.listings.entry(full).or_insert_with(|| Rc::new(listing)));
        Found { full, shape, names, listing, problem }
    }

    /// Mounts and unmounts an image; gives its tree, and the image afterwards.
    pub(crate) fn finish(&self, image: &Image) -> Result<(Listing, Image), String> {
        let medium = Medium::new(image.clone());
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(Disk::instant(&medium, &self.options.geometry)));
        let options = MountOptions { cache_pages: MountOptions::CACHE_PAGES_MIN, ..self.options.mount() };
        let work = async move {
            let fs = Ext4::mount(port, options).await?;
            let listing = read_tree(&fs).await?;
            fs.unmount().await?;
            fs.check().expect("the cache's invariants");
            Ok::<Listing, onewrite_fs::FsError>(listing)
        };
        let outcome = executor.block_on(work).map_err(|halt| halt.to_string());
        drop(executor);
        let listing = outcome?.map_err(|error| error.to_string())?;
        let image = medium.borrow().image.clone();
        Ok((listing, image))
    }
}

/// The first things that the checker finds wrong.
fn finding(image: &Image) -> Option<String> {
    let reader = AtRest(image);
    let options = CheckOptions { findings_max: 3 };
    let mut check = std::pin::pin!(check(&reader, &options));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(report) = check.as_mut().poll(&mut context) else {
        unreachable!("reading memory does not wait")
    };
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    (!findings.is_empty()).then(|| findings.join("; "))
}

fn failed(error: String) -> Found {
    Found { full: 0, shape: 0, names: 0, listing: Rc::default(), problem: Some(Problem::Recovery(error)) }
}

/// The hash of what lies outside the log after recovery wrote to it.
fn home_sum(before: &Image, medium: &Medium, mut sum: Sum, log: &FxHashSet<Lpn>) -> u64 {
    let mut written = medium.written.clone();
    written.sort_unstable();
    written.dedup();
    for lpn in written {
        let hashes = (page_hash(before.page(lpn)), page_hash(medium.image.page(lpn)));
        sum.replace(lpn, hashes, log.contains(&lpn));
    }
    sum.home
}

struct AtRest<'a>(&'a Image);

impl ReadBlocks for AtRest<'_> {
    async fn read_block(&self, block: u64) -> Result<Page, ReadError> {
        match block < self.0.pages() {
            true => Ok(self.0.page(Lpn(block)).clone()),
            false => Err(ReadError { reason: "beyond the end".into() }),
        }
    }
}

/// Everything that can be seen from the root.
pub(crate) async fn read_tree<F: FileSystem>(fs: &F) -> FsResult<Listing> {
    let mut listing = Listing::default();
    let mut pending = vec![(String::new(), fs.root())];
    while let Some((path, directory)) = pending.pop() {
        let mut cursor = 0;
        loop {
            let entries = fs.read_directory(directory, cursor).await?;
            let Some(last) = entries.last() else { break };
            cursor = last.next;
            for entry in entries.iter().filter(|entry| entry.name != b"." && entry.name != b"..") {
                let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                let item = read_item(fs, entry.ino).await?;
                if item.kind == ItemKind::Directory {
                    pending.push((path.clone(), entry.ino));
                }
                listing.insert(path, entry.ino.0, item);
            }
        }
    }
    listing.number_groups();
    Ok(listing)
}

async fn read_item<F: FileSystem>(fs: &F, ino: Ino) -> FsResult<Item> {
    let attributes = fs.attributes(ino).await?;
    Ok(Item::new(match attributes.kind {
        FileKind::Directory => ItemKind::Directory,
        FileKind::Symlink => ItemKind::Symlink(String::from_utf8_lossy(&fs.read_link(ino).await?).into_owned()),
        FileKind::Regular => ItemKind::File(read_content(fs, ino, attributes.size).await?),
        other => ItemKind::Other(format!("{other:?}")),
    }))
}

/// Largest file that is read whole; a larger size can only come from damage.
const SIZE_MAX: u64 = 256 * 1024 * 1024;

async fn read_content<F: FileSystem>(fs: &F, ino: Ino, size: u64) -> FsResult<FileContent> {
    let data = fs.read(ino, 0, size.min(SIZE_MAX), Manner::default()).await?;
    let pages = (0..).zip(data.pages).filter(|(_, page)| !page.is_zeros());
    let pages = pages.map(|(index, page)| {
        let hash = page_hash(&page);
        (index, page, hash)
    });
    Ok(FileContent { size, pages: pages.collect() })
}
