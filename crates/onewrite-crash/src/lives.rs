//! Lives: what a disk holds when a workload begins, if power cuts ended earlier lives of the file system.
//!
//! ```text
//!   mkfs ─► setup, unmounted ─► base image                                 without a cut
//!   mkfs ─► setup … cut ─► recovered, setup … cut ─► base image            each `cut` ends a life
//! ```
//!
//! So the run begins with a recovery, writes on over what the last life left in the log, and is cut again. The moment
//! of the cut is drawn from those behind the life's last sync, and so is what survives of the writes that no FLUSH
//! covers.
//!
//! The run must know with which tree it begins. So a cut counts only if recovery finds the tree behind one of the
//! operations since that sync. If [`TRIES`] cuts leave something else, or a mode pads, the life ends with an unmount;
//! whether a promise broke there is not asked here: series without lives ask it.

use std::rc::Rc;

use onewrite_block::layer::{RecordedEvent, Recording};
use onewrite_block::{Choices, Executor, Image};
use onewrite_fs::FileSystem;
use rustc_hash::FxHashSet;

use crate::action::{Action, Workload};
use crate::base::BaseImage;
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::history::{History, Operation, Syncs};
use crate::model::{Listing, Tree};
use crate::options::ExploreOptions;
use crate::perform::{in_memory, new_image, perform, recorded};
use crate::read_tree::{Extended, read_tree};
use crate::states::{Choice, Sum, Walker};
use crate::subject::{Purpose, Subject};

/// Most cuts that are tried to end a life.
const TRIES: u64 = 8;

/// The image and the tree after the setup of `workload`.
///
/// # Errors
/// If it cannot be run.
pub(crate) fn prepare<S: Subject>(
    subject: &Rc<S>,
    workload: &Workload,
    options: &ExploreOptions,
) -> Result<(Image, Tree), CrashError> {
    let mut state = match &options.base {
        Some(base) => mounted(subject, base, Extended::of(workload), options)?,
        None => (new_image(&**subject, options)?, Tree::of_directories(subject.directories())),
    };
    for part in workload.setup.split_inclusive(|action| matches!(action, Action::Cut(_))) {
        state = match part {
            [actions @ .., Action::Cut(number)] => {
                let life = Life::lived(subject, state, actions, options)?;
                let cut = life.cut_off(subject, Extended::of(workload), (*number, options));
                cut.unwrap_or_else(|| life.unmounted())
            }
            actions => unmounted(subject, state, actions, options)?,
        };
    }
    Ok(state)
}

/// The image of another program behind a mount, and its tree.
///
/// # Errors
/// If it cannot be mounted, or holds what workloads do not know (devices, sockets).
fn mounted<S: Subject>(
    subject: &Rc<S>,
    base: &BaseImage,
    extended: Extended,
    options: &ExploreOptions,
) -> Result<(Image, Tree), CrashError> {
    let medium = Medium::new(base.image());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(Disk::instant(&medium, &options.geometry)));
    let (subject, mounting) = (Rc::clone(subject), options.mounting(Purpose::Recovery));
    let work = async move {
        let fs = subject.mount(port, mounting).await?;
        let listing = read_tree(&fs, extended).await?;
        fs.unmount().await?;
        Ok(listing)
    };
    let what = || format!("mounting what `{}` made", base.command());
    let outcome = executor.block_on(work).map_err(|halt| CrashError::Halted { what: what(), halt })?;
    drop(executor);
    let listing = outcome.map_err(|error| CrashError::FileSystem { what: what(), error })?;
    let unknown = |path| format!("`{}` made {path}, which is no file, directory or link", base.command());
    let tree = Tree::of_listing(&listing).map_err(|path| CrashError::Image(unknown(path)))?;
    let image = medium.borrow().image.clone();
    Ok((image, tree))
}

/// What a part of a setup leaves that ends with an unmount.
fn unmounted<S: Subject>(
    subject: &Rc<S>,
    (image, tree): (Image, Tree),
    actions: &[Action],
    options: &ExploreOptions,
) -> Result<(Image, Tree), CrashError> {
    let medium = Medium::new(image);
    let disk = in_memory(Box::new(Disk::instant(&medium, &options.geometry)));
    let setup = Workload::of(actions.to_vec());
    let history = perform(subject, disk, (tree, &Rc::default()), setup, options.mounting(Purpose::Run))?;
    let (tree, _) = trees(&history).pop().expect("the tree before the first operation");
    let image = medium.borrow().image.clone();
    Ok((image, tree))
}

/// The tree before the first operation, and that behind each, with the number of happenings by then.
fn trees(history: &History) -> Vec<(Tree, usize)> {
    let mut all = vec![(history.initial.clone(), 0)];
    for operation in history.ended() {
        let mut tree = all[all.len() - 1].0.clone();
        let Operation { steps, end, .. } = &history.operations[operation];
        steps.iter().for_each(|step| drop(tree.apply(step)));
        all.push((tree, end.map_or(0, |end| end + 1)));
    }
    all
}

/// One life, recorded.
struct Life {
    base: Image,
    events: Vec<RecordedEvent>,
    /// The trees behind the last sync and behind each later operation.
    trees: Vec<Tree>,
    /// Events by the end of that sync, and by that of the last operation.
    moments: (usize, usize),
    /// The image behind the unmount.
    end: Image,
}

impl Life {
    /// Runs a life to its unmount.
    fn lived<S: Subject>(
        subject: &Rc<S>,
        (base, tree): (Image, Tree),
        actions: &[Action],
        options: &ExploreOptions,
    ) -> Result<Life, CrashError> {
        let medium = Medium::new(base.clone());
        let workload = Workload::of(actions.to_vec());
        let (history, Recording { events, .. }) = recorded(subject, (&medium, tree), workload, options)?;
        // The last operation is the unmount, a sync like others.
        let unmount = history.operations.last().map_or(0, |unmount| unmount.begin);
        let is_sync = |operation: &&Operation| operation.syncs == Syncs::Everything && operation.begin < unmount;
        let synced = history.operations.iter().rfind(is_sync).and_then(|sync| sync.end);
        let event_of = |happening: usize| {
            let is_it = |event: &RecordedEvent| matches!(event, RecordedEvent::Mark(mark) if *mark == happening as u64);
            events.iter().position(is_it).map_or(0, |event| event + 1)
        };
        let first = synced.map_or(0, event_of);
        let moments = (first, first.max(unmount.checked_sub(1).map_or(first, event_of)));
        let is_of_cut =
            |(_, happened): &(Tree, usize)| (synced.map_or(0, |synced| synced + 1)..=unmount).contains(happened);
        let trees = trees(&history).into_iter().filter(is_of_cut);
        let trees = trees.map(|(tree, _)| tree).collect();
        let end = medium.borrow().image.clone();
        Ok(Life { base, events, trees, moments, end })
    }

    fn unmounted(&self) -> (Image, Tree) {
        (self.end.clone(), self.trees.last().expect("that of the last operation").clone())
    }

    /// What a cut leaves whose recovery finds one of the trees.
    fn cut_off<S: Subject>(
        &self,
        subject: &Rc<S>,
        extended: Extended,
        (number, options): (u64, &ExploreOptions),
    ) -> Option<(Image, Tree)> {
        if subject.promises().pads {
            // Its syncs send no FLUSH: only a device knows what it lost.
            return None;
        }
        let mut chance = Choices::new(options.seed).stream("cut of a life", number);
        (0..TRIES).find_map(|_| {
            let image = self.cut_image(&mut chance, options);
            let found = recovered(subject, image.clone(), extended, options)?.full_hash();
            let tree = self.trees.iter().rfind(|tree| tree.listing().full_hash() == found)?;
            Some((image, tree.clone()))
        })
    }

    /// The image at a moment, with all, none or some of what no FLUSH covers.
    fn cut_image(&self, chance: &mut Choices, options: &ExploreOptions) -> Image {
        let log = FxHashSet::default();
        let mut walker = Walker::new(self.base.clone(), Sum::of_base(0), &log, &options.geometry);
        let (first, last) = self.moments;
        let moment = first + chance.index(last - first + 1);
        for event in &self.events[..moment] {
            walker.pass(event);
        }
        let kept_of_two = chance.below(3);
        let kept = (0..walker.pending.len()).filter(|_| chance.below(2) < kept_of_two).collect();
        walker.image_of(&Choice { kept, torn: None })
    }
}

/// The tree that a mount finds on `image`; `None` if there is none.
fn recovered<S: Subject>(
    subject: &Rc<S>,
    image: Image,
    extended: Extended,
    options: &ExploreOptions,
) -> Option<Listing> {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(Disk::instant(&Medium::new(image), &options.geometry)));
    let (subject, mounting) = (Rc::clone(subject), options.mounting(Purpose::Recovery));
    let work = async move {
        let fs = subject.mount(port, mounting).await.ok()?;
        read_tree(&fs, extended).await.ok()
    };
    executor.block_on(work).ok().flatten()
}
