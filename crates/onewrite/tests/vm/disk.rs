//! Disk: an image behind a recording file, whose last page is a line of the program that works on it: each page written
//! there says how many of its steps are done.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Image, Lpn, Operation, Page, Request};
use onewrite_crash::Application;
use onewrite_host::fuse::RecordedFile;
use onewrite_testing::skipped;

pub const PAGE: usize = 4096;

/// Reads an image.
pub fn load(path: &Path) -> Image {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut image = Image::new(file.metadata().unwrap().len() / PAGE as u64);
    let mut bytes = [0; PAGE];
    for page in 0..image.pages() {
        file.read_exact_at(&mut bytes, page * PAGE as u64).unwrap();
        if bytes != [0; PAGE] {
            image.set(Lpn(page), Page::new(bytes));
        }
    }
    image
}

/// Writes an image.
pub fn save(image: &Image, path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(image.pages() * PAGE as u64).unwrap();
    for (lpn, page) in image.written().filter(|(_, page)| !page.is_zeros()) {
        file.write_all_at(&page.bytes()[..], lpn.0 * PAGE as u64).unwrap();
    }
}

/// A disk with an image and one page more, recorded while it lives.
pub struct Disk {
    base: Image,
    file: RecordedFile,
}

/// What was written to a disk.
#[derive(Clone)]
pub struct Recording {
    pub base: Image,
    /// Mark `n`: `n` steps were done.
    pub events: Vec<RecordedEvent>,
}

impl Disk {
    /// A disk that begins with the image at `path`; `None`, with a message, if FUSE is not to be had.
    pub fn new(path: &Path, room: &Path) -> Option<Disk> {
        let base = load(path);
        let mut larger = Image::new(base.pages() + 1);
        base.written().for_each(|(lpn, page)| larger.set(lpn, page.clone()));
        let directory = room.join("recorded");
        std::fs::create_dir_all(&directory).unwrap();
        match RecordedFile::new(&directory, larger) {
            Ok(file) => Some(Disk { base, file }),
            Err(error) => {
                skipped!("no FUSE (not root?): {error}");
                None
            }
        }
    }

    /// The file to work on.
    pub fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// Notes from this process how many steps are done.
    pub fn marker(&self) -> impl Fn(u64) + Send + 'static {
        self.file.marker()
    }

    /// Ends the recording.
    pub fn finish(self) -> Recording {
        let line = Lpn(self.base.pages());
        Recording { base: self.base, events: marked(self.file.finish().unwrap(), line) }
    }
}

/// The events with a mark in place of each write to the line. A line's FLUSHes stay.
fn marked(events: Vec<RecordedEvent>, line: Lpn) -> Vec<RecordedEvent> {
    let mut lines = BTreeSet::new();
    let said = events.into_iter().filter_map(|event| match &event {
        RecordedEvent::Submitted(token, Request { operation: Operation::Write { start, pages, .. }, .. })
            if *start == line =>
        {
            lines.insert(token.0);
            let number = pages[0].bytes()[..8].try_into().expect("eight bytes");
            Some(RecordedEvent::Mark(u64::from_le_bytes(number)))
        }
        RecordedEvent::Completed(token) if lines.contains(&token.0) => None,
        _ => Some(event),
    });
    said.collect()
}

impl Recording {
    /// Pages written and FLUSHes.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost::default();
        for event in &self.events {
            let RecordedEvent::Submitted(_, request) = event else { continue };
            match &request.operation {
                Operation::Write { pages, .. } => cost.pages += pages.len() as u64,
                Operation::Flush => cost.flushes += 1,
                _ => (),
            }
        }
        cost
    }

    /// Position of the first mark.
    pub fn first_mark(&self) -> usize {
        self.events.iter().position(|event| matches!(event, RecordedEvent::Mark(_))).expect("a step")
    }

    /// What a stop of the machine after event `end` leaves of a disk that keeps what it took; and the steps done.
    pub fn cut(&self, end: usize) -> (Image, usize) {
        let (mut image, mut done) = (self.base.clone(), 0);
        for event in &self.events[..end] {
            match event {
                RecordedEvent::Submitted(_, request) => image.apply(&request.operation),
                RecordedEvent::Mark(number) => done = *number as usize,
                RecordedEvent::Completed(_) | RecordedEvent::Failed(_) => (),
            }
        }
        (image, done)
    }

    /// The recording as the crash explorer takes it: the token says how many steps are done.
    pub fn application(&self) -> Application {
        let mut tokens = Vec::new();
        let mut events = self.events.clone();
        for event in &mut events {
            if let RecordedEvent::Mark(number) = event {
                tokens.push(number.to_string());
                *number = tokens.len() as u64 - 1;
            }
        }
        Application::recorded(self.base.clone(), events, tokens)
    }
}

/// Pages written, and FLUSHes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub pages: u64,
    pub flushes: u64,
}
