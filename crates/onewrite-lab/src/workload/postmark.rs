//! PostMark (J. Katcher, Network Appliance TR-3022, 1997): small, short-lived files, as on mail and news servers.
//!
//! One thread makes a set of files of random size between two bounds, spread over subdirectories at random.
//! Transactions follow. Each has two halves with even chances: it reads a whole file or appends to one, and it makes or
//! deletes one. At the end all files are deleted. Nothing is synced, except for an optional fsync after the set, as in
//! `papers/001` §6.1. As PostMark 1.53 does it, each file holds the beginning of one random text: nothing in it
//! compresses, but a compressor finds it again in the next file, if that lies within its window.

use std::collections::VecDeque;

use onewrite_block::{Choices, Nanos};
use onewrite_fs::Position;

use crate::error::LabError;
use crate::job::SyncMode;
use crate::workload::{
    FileId, FilePlan, JobPlan, Layout, Operation, OrderedOperation, Stream, Task, TaskDescriptor, Workload, WriteManner,
};

/// Name on the command line and in reports.
pub const NAME: &str = "postmark";

/// Parameters of a run. The default is the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Files of the set.
    pub files: u32,
    /// Number of transactions.
    pub transactions: u32,
    /// Smallest and largest size of a file in bytes.
    pub size: (u64, u64),
    /// Subdirectories; with 0 all files lie in one directory.
    pub subdirectories: u32,
    /// Bytes of one read or write.
    pub chunk: u64,
    /// Whether an fsync follows the set.
    pub synced_set: bool,
    /// Percent of the content that compresses, 0 to 100.
    pub compressible_percent: u8,
    /// Whether all files hold the beginning of one text. Else each write has its own, so that old content shows.
    pub one_text: bool,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            files: 500,
            transactions: 500,
            size: (500, 9_770),
            subdirectories: 0,
            chunk: 512,
            synced_set: false,
            compressible_percent: 0,
            one_text: true,
        }
    }
}

/// Turns parameters into a workload; `choices` is the only source of chance.
///
/// # Errors
/// [`LabError::Option`] if there are no files, or the sizes are impossible.
pub fn plan(parameters: Parameters, choices: &Choices) -> Result<Workload, LabError> {
    let (least, most) = parameters.size;
    if parameters.files == 0 || parameters.chunk == 0 || least == 0 || least > most {
        let message = format!("{NAME}: files and chunk are at least 1, sizes {least} to {most} are none");
        return Err(LabError::Option(message));
    }
    if parameters.compressible_percent > 100 {
        return Err(LabError::Option(format!("{NAME}: the compressible share is a percentage, 0 to 100")));
    }
    let mut chance = choices.stream("postmark places", 0);
    let ids = 0..u64::from(parameters.files) + u64::from(parameters.transactions);
    let files = ids.map(|id| file(&parameters, id, &mut chance)).collect();
    let below = (0..parameters.subdirectories).map(|number| format!("{NAME}/s{number}"));
    let stream = PostMark::new(parameters, choices.stream("postmark", 0));
    Ok(Workload {
        name: NAME.to_owned(),
        directories: std::iter::once(NAME.to_owned()).chain(below).collect(),
        files,
        jobs: vec![JobPlan { name: NAME.to_owned(), group: 0, operations_count: true, options: Vec::new() }],
        groups: vec![vec![Task {
            job: 0,
            stream: Box::new(stream),
            concurrency: 1,
            start_delay: Nanos::ZERO,
            ramp_time: Nanos::ZERO,
            read_before: Vec::new(),
        }]],
    })
}

fn file(parameters: &Parameters, id: u64, chance: &mut Choices) -> FilePlan {
    let path = match parameters.subdirectories {
        0 => format!("{NAME}/{id}"),
        count => format!("{NAME}/s{}/{id}", chance.below(count.into())),
    };
    FilePlan { path, layout: Layout::None, verified: false, bytes: parameters.size.1 }
}

const FILE: TaskDescriptor = TaskDescriptor(1);

struct PostMark {
    parameters: Parameters,
    choices: Choices,
    /// The seed of the one text.
    text: u64,
    /// Existing files and their sizes.
    live: Vec<(FileId, u64)>,
    /// The next file to make.
    next: FileId,
    transactions_left: u32,
    is_removing: bool,
    pending: VecDeque<Operation>,
}

impl PostMark {
    fn new(parameters: Parameters, mut choices: Choices) -> PostMark {
        let (live, pending, text) = (Vec::new(), VecDeque::new(), choices.bits());
        let transactions_left = parameters.transactions;
        PostMark { parameters, choices, text, live, next: FileId(0), transactions_left, is_removing: false, pending }
    }

    /// Puts the next operations into `pending`; none at the end.
    fn go_on(&mut self) {
        if self.next.0 < self.parameters.files {
            self.create(self.parameters.synced_set && self.next.0 + 1 == self.parameters.files);
        } else if self.transactions_left > 0 {
            self.transactions_left -= 1;
            self.transaction();
        } else {
            self.is_removing = true;
            self.delete();
        }
    }

    fn transaction(&mut self) {
        if self.choices.chance(1, 2) {
            self.read()
        } else {
            self.append()
        }
        if self.choices.chance(1, 2) { self.create(false) } else { self.delete() }
    }

    fn create(&mut self, is_synced: bool) {
        let (least, most) = self.parameters.size;
        let (file, size) = (self.next, least + self.choices.below(most - least + 1));
        self.next.0 += 1;
        self.live.push((file, size));
        self.pending.push_back(Operation::Create { file, slot: FILE });
        self.write(size);
        if is_synced {
            self.pending.push_back(Operation::Fsync { slot: FILE });
        }
        self.pending.push_back(Operation::Close { slot: FILE });
    }

    /// Appends `bytes` to the open file.
    fn write(&mut self, bytes: u64) {
        for done in (0..bytes).step_by(self.parameters.chunk as usize) {
            self.pending.push_back(Operation::Write {
                slot: FILE,
                position: Position::End,
                length: self.parameters.chunk.min(bytes - done),
                seed: if self.parameters.one_text { self.text } else { self.choices.bits() },
                compressible_percent: self.parameters.compressible_percent,
                manner: WriteManner { direct: false, sync: SyncMode::None },
            });
        }
    }

    fn delete(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let index = if self.is_removing { self.live.len() - 1 } else { self.choices.index(self.live.len()) };
        let (file, _) = self.live.swap_remove(index);
        self.pending.push_back(Operation::Unlink { file });
    }

    fn read(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let (file, _) = self.live[self.choices.index(self.live.len())];
        self.pending.push_back(Operation::Open { file, slot: FILE, create: false });
        self.pending.push_back(Operation::ReadWhole { slot: FILE, chunk: self.parameters.chunk });
        self.pending.push_back(Operation::Close { slot: FILE });
    }

    /// Appends to a random file, unless it has the largest size.
    fn append(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let index = self.choices.index(self.live.len());
        let (file, size) = self.live[index];
        let room = self.parameters.size.1 - size;
        if room == 0 {
            return;
        }
        let bytes = 1 + self.choices.below(room);
        self.live[index].1 += bytes;
        self.pending.push_back(Operation::Open { file, slot: FILE, create: false });
        self.write(bytes);
        self.pending.push_back(Operation::Close { slot: FILE });
    }
}

impl Stream for PostMark {
    fn next(&mut self, _now: Nanos) -> Result<Option<OrderedOperation>, LabError> {
        while self.pending.is_empty() && !(self.is_removing && self.live.is_empty()) {
            self.go_on();
        }
        Ok(self.pending.pop_front().map(OrderedOperation::alone))
    }

    /// Share of the transactions; making and removing files do not count.
    fn share(&self, _now: Nanos) -> Option<f64> {
        let all = self.parameters.transactions;
        Some(f64::from(all - self.transactions_left) / f64::from(all.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SMALL: Parameters = Parameters {
        files: 20,
        transactions: 300,
        size: (500, 3_000),
        subdirectories: 4,
        chunk: 512,
        synced_set: true,
        compressible_percent: 0,
        one_text: true,
    };

    /// All operations of a run.
    fn operations(parameters: Parameters, seed: u64) -> Vec<Operation> {
        let mut workload = plan(parameters, &Choices::new(seed)).unwrap();
        let stream = &mut workload.groups[0][0].stream;
        std::iter::from_fn(|| Some(stream.next(Nanos::ZERO).unwrap()?.operation)).collect()
    }

    #[test]
    fn files_keep_their_bounds_and_are_all_gone_at_the_end() {
        let mut sizes: BTreeMap<FileId, u64> = BTreeMap::new();
        let mut open = None;
        for operation in operations(SMALL, 1) {
            match operation {
                Operation::Create { file, .. } => {
                    assert_eq!(sizes.insert(file, 0), None, "{file:?} was made twice");
                    open = Some(file);
                }
                Operation::Open { file, .. } => open = Some(file),
                Operation::Write { length, .. } => *sizes.get_mut(&open.unwrap()).unwrap() += length,
                Operation::Close { .. } => {
                    let size = sizes[&open.take().unwrap()];
                    assert!((500..=3_000).contains(&size), "{size}");
                }
                Operation::Unlink { file } => drop(sizes.remove(&file).unwrap()),
                Operation::ReadWhole { .. } | Operation::Fsync { .. } => assert!(open.is_some()),
                other => panic!("{other:?}"),
            }
        }
        assert!(sizes.is_empty() && open.is_none());
    }

    #[test]
    fn halves_of_transactions_have_even_chances_and_one_fsync_follows_the_set() {
        let all = operations(Parameters { transactions: 10_000, files: 2_000, ..SMALL }, 1);
        let count = |name: &str| all.iter().filter(|operation| operation.name() == name).count();
        let set = all.iter().position(|operation| operation.name() == "fsync").unwrap();
        assert_eq!(count("fsync"), 1);
        assert_eq!(all[..set].iter().filter(|operation| operation.name() == "create").count(), 2_000);
        assert!((4_800..5_200).contains(&(count("create") - 2_000)), "{}", count("create"));
        assert!((4_800..5_200).contains(&count("read")), "{}", count("read"));
        assert_eq!(count("create"), count("unlink"));
    }

    #[test]
    fn files_hold_the_beginning_of_one_text_or_each_write_its_own() {
        let seeds = |one_text| {
            let all = operations(Parameters { one_text, ..SMALL }, 1).into_iter();
            let seeds: std::collections::BTreeSet<u64> = all
                .filter_map(|operation| if let Operation::Write { seed, .. } = operation { Some(seed) } else { None })
                .collect();
            seeds.len()
        };
        assert_eq!(seeds(true), 1);
        assert!(seeds(false) > 300);
    }

    #[test]
    fn one_seed_gives_one_run() {
        assert_eq!(operations(SMALL, 1), operations(SMALL, 1));
        assert_ne!(operations(SMALL, 1), operations(SMALL, 2));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [Parameters { files: 0, ..SMALL }, Parameters { size: (10, 5), ..SMALL }] {
            assert!(plan(wrong, &Choices::new(1)).err().unwrap().to_string().starts_with("postmark: "));
        }
    }
}
