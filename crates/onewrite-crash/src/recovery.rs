//! Recovery: mounts a state, reads its tree, checks its metadata, and remembers the outcome.
//!
//! Every distinct state has its log replayed. The rest depends only on the blocks outside the log, and after replay
//! many states agree on these. So the rest runs once for each such image: mount (which frees orphans), read the tree,
//! unmount, check.
//!
//! Where all of it happens in the mount (F2FS), images stay as different as the states. There, outcomes are found again
//! by what recovery read: [`OutcomesByReads`].

use std::rc::Rc;

use onewrite_block::mark::{self, Marks};
use onewrite_block::{Executor, Image, Lpn};
use onewrite_fs::{FileSystem, FsError};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::disk::{Disk, Medium};
use crate::hash::page_hash;
use crate::model::Listing;
use crate::options::ExploreOptions;
use crate::read_tree::{Extended, read_tree};
use crate::reads::{OutcomesByReads, Reads};
use crate::states::{PageHashes, Sum};
use crate::subject::{Purpose, Replayed, Subject};
use crate::view::{viewed, wrong_in_view};

/// Most images kept in memory; then all are dropped.
const REMEMBERED_MAX: usize = 20_000;

/// Of so many states one is looked at through a view, too.
const VIEWED_EVERY: u64 = 16;

/// Of outcomes found by their reads, each such one is recovered all the same, and must be what was found.
const DOUBTED_EVERY: u64 = 512;

/// The recovered content of a state.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) full: u64,
    pub(crate) shape: u64,
    pub(crate) names: u64,
    pub(crate) skeleton: u64,
    pub(crate) listing: Rc<Listing>,
    /// Why recovery failed, or what a checker found.
    pub(crate) problem: Option<Problem>,
    /// The marks that mount and unmount reached.
    pub(crate) reached: Marks,
}

impl Found {
    fn copy(&self) -> Found {
        Found { listing: Rc::clone(&self.listing), problem: self.problem.clone(), ..*self }
    }
}

/// A broken promise that is found without the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Recovery, mount or reading failed.
    Recovery(String),
    /// A checker found something.
    Structure(String),
    /// A view of the state, which writes nothing, shows another tree than its mount.
    View(String),
}

/// A recovered state.
pub(crate) struct Outcome {
    pub(crate) found: Rc<Found>,
    /// What replaying the log did; `None` if it was empty.
    pub(crate) replayed: Option<Replayed>,
    /// The image after the log was replayed.
    pub(crate) image: Image,
    /// The marks that replay and mount reached.
    pub(crate) reached: Marks,
}

/// Recovers states and remembers the outcomes.
pub(crate) struct Recoverer<'a, S: Subject> {
    subject: Rc<S>,
    options: &'a ExploreOptions,
    /// Whether files may have extended attributes.
    pub(crate) extended: Extended,
    remembered: FxHashMap<u64, Rc<Found>>,
    listings: FxHashMap<u64, Rc<Listing>>,
    by_reads: FxHashMap<Extended, OutcomesByReads<Known>>,
    /// Outcomes found again by their reads.
    met: u64,
    memory: Rc<S::Memory>,
}

/// What is kept of an [`Outcome`] whose image is that of the state.
#[derive(Clone, Debug)]
struct Known {
    found: Rc<Found>,
    replayed: Option<Replayed>,
    reached: Marks,
}

impl Known {
    fn of(outcome: &Outcome) -> Known {
        Known { found: Rc::clone(&outcome.found), replayed: outcome.replayed, reached: outcome.reached }
    }

    /// # Panics
    /// If recovery made something else of a state that is to have this outcome: then it depends on more than it reads.
    fn expect_same(&self, outcome: &Outcome) {
        let (known, anew) = (&self.found, &outcome.found);
        assert_eq!((known.full, &known.problem), (anew.full, &anew.problem), "a state answers all reads alike");
        assert_eq!(
            (self.replayed, self.reached),
            (outcome.replayed, outcome.reached),
            "a state answers all reads alike"
        );
    }
}

impl<'a, S: Subject> Recoverer<'a, S> {
    pub(crate) fn new(subject: &Rc<S>, options: &'a ExploreOptions) -> Recoverer<'a, S> {
        Recoverer {
            subject: Rc::clone(subject),
            options,
            extended: Extended::None,
            remembered: FxHashMap::default(),
            listings: FxHashMap::default(),
            by_reads: FxHashMap::default(),
            met: 0,
            memory: Rc::default(),
        }
    }

    /// Recovers `image`, whose hash is `sum`.
    pub(crate) fn recover(&mut self, image: Image, sum: Sum, log: &FxHashSet<Lpn>) -> Outcome {
        let viewed = sum.all.is_multiple_of(VIEWED_EVERY).then(|| image.clone());
        let outcome = self.recover_unseen(image, sum, log);
        match viewed.and_then(|image| self.wrong_view(&image, &outcome.found)) {
            Some(wrong) => {
                Outcome { found: Rc::new(Found { problem: Some(wrong), ..outcome.found.copy() }), ..outcome }
            }
            None => outcome,
        }
    }

    /// What a view of `image` shows otherwise than its mount, which found `found`.
    fn wrong_view(&self, image: &Image, found: &Found) -> Option<Problem> {
        if found.problem.is_some() {
            return None;
        }
        let viewed = viewed(&self.subject, image, &self.options.geometry, self.extended);
        wrong_in_view(&found.listing, viewed).map(Problem::View)
    }

    fn recover_unseen(&mut self, image: Image, sum: Sum, log: &FxHashSet<Lpn>) -> Outcome {
        if !self.subject.is_known_by_reads() {
            return self.recover_anew(image, sum, log, None).0;
        }
        let known = self.by_reads.get(&self.extended).and_then(|outcomes| outcomes.of(&image));
        self.met += u64::from(known.is_some());
        match known {
            Some(Known { found, replayed, reached }) if !self.met.is_multiple_of(DOUBTED_EVERY) => {
                Outcome { found, replayed, image, reached }
            }
            known => {
                let (outcome, reads) = self.recover_anew(image.clone(), sum, log, Some(Reads::default()));
                match known {
                    Some(known) => known.expect_same(&outcome),
                    None => {
                        let outcomes = self.by_reads.entry(self.extended).or_default();
                        outcomes.keep(&image, &reads.unwrap_or_default(), Known::of(&outcome));
                    }
                }
                outcome
            }
        }
    }

    /// Recovers `image`; adds what was read to `reads`.
    fn recover_anew(
        &mut self,
        image: Image,
        sum: Sum,
        log: &FxHashSet<Lpn>,
        reads: Option<Reads>,
    ) -> (Outcome, Option<Reads>) {
        let before = image.clone();
        let medium = Medium::watched(image, reads);
        let disk = Disk::instant(&medium, &self.options.geometry);
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(disk));
        let (subject, memory) = (Rc::clone(&self.subject), Rc::clone(&self.memory));
        let recovery = async move { subject.recover(&port, &memory).await };
        let (replayed, reached) = mark::during(|| executor.block_on(recovery));
        drop(executor);
        let replayed = replayed.map_err(|halt| halt.to_string());
        let replayed = match replayed.and_then(|outcome| outcome.map_err(|error| error.to_string())) {
            Ok(replayed) => replayed,
            Err(error) => {
                let found = Rc::new(failed(error));
                let reads = medium.borrow_mut().reads.take();
                return (Outcome { found, replayed: None, image: before, reached }, reads);
            }
        };
        let mut medium = std::mem::replace(&mut *medium.borrow_mut(), Medium::empty());
        let mut reads = medium.reads.take();
        let key = home_sum(&before, &medium, sum, log);
        let found = self.found_on(&medium.image, key, &mut reads);
        let reached = reached.and(found.reached);
        (Outcome { found, replayed, image: medium.image, reached }, reads)
    }

    /// What stands on an image with an empty log. Without `reads`, equal images are looked at once.
    fn found_on(&mut self, image: &Image, key: u64, reads: &mut Option<Reads>) -> Rc<Found> {
        if reads.is_some() {
            let (found, reached) = mark::during(|| self.read(image, reads));
            return Rc::new(Found { reached, ..found });
        }
        if let Some(found) = self.remembered.get(&key) {
            return Rc::clone(found);
        }
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.clear();
            self.listings.clear();
        }
        let (found, reached) = mark::during(|| self.read(image, reads));
        let found = Rc::new(Found { reached, ..found });
        self.remembered.insert(key, Rc::clone(&found));
        found
    }

    /// Checks an image with an empty log, mounts, reads and unmounts it, and checks it again.
    fn read(&mut self, image: &Image, reads: &mut Option<Reads>) -> Found {
        if let Some(finding) = self.finding(image, reads) {
            return Found { problem: Some(Problem::Structure(finding)), ..failed(String::new()) };
        }
        let (listing, image) = match self.finish_telling(image, reads) {
            Ok(finished) => finished,
            Err(error) => return failed(error),
        };
        let problem = self.finding(&image, reads).map(Problem::Structure);
        let (full, shape, names) = (listing.full_hash(), listing.shape_hash(), listing.name_hash());
        let skeleton = listing.skeleton_hash();
        let listing = Rc::clone(self.listings.entry(full).or_insert_with(|| Rc::new(listing)));
        Found { full, shape, names, skeleton, listing, problem, reached: Marks::NONE }
    }

    /// Mounts and unmounts an image; returns its tree and the new image.
    pub(crate) fn finish(&self, image: &Image) -> Result<(Listing, Image), String> {
        self.finish_telling(image, &mut None)
    }

    fn finish_telling(&self, image: &Image, reads: &mut Option<Reads>) -> Result<(Listing, Image), String> {
        let medium = Medium::watched(image.clone(), reads.take());
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(Disk::instant(&medium, &self.options.geometry)));
        let (subject, mounting) = (Rc::clone(&self.subject), self.options.mounting(Purpose::Recovery));
        let extended = self.extended;
        let work = async move {
            let told = |error: FsError| error.to_string();
            let fs = subject.mount(port, mounting).await.map_err(told)?;
            subject.check(&fs)?;
            let listing = read_tree(&fs, extended).await.map_err(told)?;
            fs.unmount().await.map_err(told)?;
            subject.check(&fs)?;
            Ok::<Listing, String>(listing)
        };
        let outcome = executor.block_on(work).map_err(|halt| halt.to_string());
        drop(executor);
        *reads = medium.borrow_mut().reads.take();
        let listing = outcome??;
        let image = medium.borrow().image.clone();
        Ok((listing, image))
    }

    /// What the file system's checker finds wrong; `None` if nothing.
    fn finding(&self, image: &Image, reads: &mut Option<Reads>) -> Option<String> {
        let looked = &mut |lpn| reads.iter_mut().for_each(|reads| reads.note_read(lpn));
        let findings = self.subject.findings(image, looked);
        (!findings.is_empty()).then(|| findings.join("; "))
    }
}

fn failed(error: String) -> Found {
    let problem = Some(Problem::Recovery(error));
    Found { full: 0, shape: 0, names: 0, skeleton: 0, listing: Rc::default(), problem, reached: Marks::NONE }
}

/// The hash of the blocks outside the log, after recovery wrote to them.
fn home_sum(before: &Image, medium: &Medium, mut sum: Sum, log: &FxHashSet<Lpn>) -> u64 {
    let mut written = medium.written.clone();
    written.sort_unstable();
    written.dedup();
    for lpn in written {
        let (old, new) = (page_hash(before.page(lpn)), page_hash(medium.image.page(lpn)));
        sum.replace(lpn, PageHashes { old, new }, log);
    }
    sum.home
}
