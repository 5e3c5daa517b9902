//! Model: everything that each name, size, page and attribute may be after a power cut.
//!
//! Each has a list of candidates: what it was when it was last made durable, and all that it was since. A step adds; a
//! sync leaves the last alone.
//!
//! # Invariants
//! - No list is empty; its last entry is what a running system shows.

use std::collections::BTreeMap;

use super::{FileId, Step, content};

pub const PAGE: u64 = 4096;

/// A page's bytes; `None` is zeros.
pub type PageContent = Option<Box<[u8]>>;

/// What a file may be.
#[derive(Debug, Default)]
pub struct FileModel {
    pub kind: Kind,
    pub sizes: Vec<u64>,
    pub pages: BTreeMap<u64, Vec<PageContent>>,
    pub attributes: Vec<Option<Vec<u8>>>,
    /// Names that it has.
    pub links: u32,
    /// Whether an fsync of it returned.
    pub is_synced: bool,
    /// The name it was made with, if its names are as then and no sync of names came since.
    new_name: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Regular,
    Directory,
    Symlink(String),
}

/// Whether a step is over, so that a sync holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    UnderWay,
}

/// What a tree may be.
#[derive(Debug, Default)]
pub struct Model {
    pub names: BTreeMap<String, Vec<Option<FileId>>>,
    pub files: BTreeMap<FileId, FileModel>,
}

impl Model {
    /// The model after `done` steps, with the next under way.
    pub fn after(steps: &[Step], done: usize) -> Model {
        let mut model = Model::default();
        steps[..done].iter().for_each(|step| model.step(step, Progress::Done));
        if let Some(step) = steps.get(done) {
            model.step(step, Progress::UnderWay);
        }
        model
    }

    fn step(&mut self, step: &Step, progress: Progress) {
        match step {
            Step::Create { file, name } => self.make(*file, name, Kind::Regular),
            Step::Directory { file, name } => self.make(*file, name, Kind::Directory),
            Step::Symlink { file, name, target } => self.make(*file, name, Kind::Symlink(target.clone())),
            Step::Write { file, offset, length, tag, .. } => {
                self.file(*file).write(*offset, &content(*tag, *offset, *length));
            }
            Step::Truncate { file, size, .. } => self.file(*file).truncate(*size),
            Step::Punch { file, offset, length, .. } => self.file(*file).punch(*offset, *length),
            Step::Attribute { file, length, tag, .. } => {
                self.file(*file).attributes.push(Some(content(*tag, 0, *length)));
            }
            Step::Rename { file, from, to } => self.rename(*file, from, to),
            Step::Link { file, to, .. } => {
                self.name(to, Some(*file));
                self.file(*file).links += 1;
                self.file(*file).new_name = None;
            }
            Step::Unlink { name, .. } => self.unlink(name),
            Step::Fsync { file, .. } if progress == Progress::Done => self.synced(*file),
            Step::SyncNames { file, name } => {
                self.make(*file, name, Kind::Regular);
                if progress == Progress::Done {
                    self.synced_names();
                }
            }
            Step::Sync if progress == Progress::Done => {
                self.synced_names();
                self.files.values_mut().for_each(FileModel::synced);
            }
            Step::Fsync { .. } | Step::Sync => (),
        }
    }

    fn file(&mut self, file: FileId) -> &mut FileModel {
        self.files.get_mut(&file).expect("a file of the plan")
    }

    fn name(&mut self, name: &str, file: Option<FileId>) {
        self.names.entry(name.into()).or_insert_with(|| vec![None]).push(file);
    }

    fn make(&mut self, file: FileId, name: &str, kind: Kind) {
        self.name(name, Some(file));
        let new_name = Some(name.to_owned());
        let made = FileModel { kind, sizes: vec![0], attributes: vec![None], links: 1, new_name, ..Default::default() };
        self.files.insert(file, made);
    }

    fn unlink(&mut self, name: &str) {
        let file = self.names[name].last().copied().flatten().expect("the name is taken");
        self.name(name, None);
        self.file(file).links -= 1;
        self.file(file).new_name = None;
    }

    fn rename(&mut self, file: FileId, from: &str, to: &str) {
        if self.names.get(to).is_some_and(|candidates| candidates.last().is_some_and(Option::is_some)) {
            self.unlink(to);
            self.names.get_mut(to).expect("just changed").pop();
        }
        self.name(to, Some(file));
        self.name(from, None);
        self.file(file).new_name = None;
    }

    fn synced(&mut self, file: FileId) {
        self.file(file).synced();
        if let Some(name) = self.file(file).new_name.clone() {
            settle(self.names.get_mut(&name).expect("it has the name"));
        }
    }

    fn synced_names(&mut self) {
        self.names.values_mut().for_each(settle);
        for file in self.files.values_mut() {
            settle(&mut file.attributes);
            file.new_name = None;
        }
    }
}

fn settle<T>(candidates: &mut Vec<T>) {
    candidates.drain(..candidates.len() - 1);
}

impl FileModel {
    fn synced(&mut self) {
        self.is_synced = true;
        settle(&mut self.sizes);
        settle(&mut self.attributes);
        self.pages.values_mut().for_each(settle);
    }

    fn size(&self) -> u64 {
        *self.sizes.last().expect("a size")
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let mut at = offset;
        while at < end {
            let (index, within) = (at / PAGE, (at % PAGE) as usize);
            let count = (PAGE as usize - within).min((end - at) as usize);
            let from = (at - offset) as usize;
            self.change(index, |page| page[within..within + count].copy_from_slice(&bytes[from..from + count]));
            at += count as u64;
        }
        if end > self.size() {
            self.sizes.push(end);
        }
    }

    /// Adds a candidate for a page: the last one, changed.
    fn change(&mut self, index: u64, change: impl FnOnce(&mut [u8])) {
        let candidates = self.pages.entry(index).or_insert_with(|| vec![None]);
        let last = candidates.last().expect("a candidate").clone();
        let mut page = last.unwrap_or_else(|| vec![0; PAGE as usize].into_boxed_slice());
        change(&mut page);
        candidates.push(Some(page).filter(|page| page.iter().any(|byte| *byte != 0)));
    }

    fn zero(&mut self, start: u64, end: u64) {
        let touched: Vec<u64> = self.pages.range(start / PAGE..end.div_ceil(PAGE)).map(|(index, _)| *index).collect();
        for index in touched {
            let (first, last) = (start.max(index * PAGE), end.min((index + 1) * PAGE));
            self.change(index, |page| page[(first - index * PAGE) as usize..(last - index * PAGE) as usize].fill(0));
        }
    }

    fn truncate(&mut self, size: u64) {
        if size < self.size() {
            self.zero(size, u64::MAX / 2);
        }
        self.sizes.push(size);
    }

    fn punch(&mut self, offset: u64, length: u64) {
        self.zero(offset, offset + length);
    }

    /// Whether the size may be this one.
    pub fn allows_size(&self, size: u64) -> bool {
        let (least, most) = (self.sizes.iter().min().copied(), self.sizes.iter().max().copied());
        least.is_some_and(|least| least <= size) && most.is_some_and(|most| size <= most)
    }

    /// Whether the first `length` bytes of a page may be these; the page is `None` if all of it is zeros.
    pub fn allows_page(&self, index: u64, found: Option<&[u8]>, length: usize) -> bool {
        let zeros = [0; PAGE as usize];
        let found = found.unwrap_or(&zeros);
        let is_same = |page: &PageContent| page.as_deref().unwrap_or(&zeros)[..length] == found[..length];
        match self.pages.get(&index) {
            Some(candidates) => candidates.iter().any(is_same),
            None => is_same(&None),
        }
    }
}
