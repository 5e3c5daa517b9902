//! Plan: draws the steps.

use std::collections::BTreeMap;

use onewrite_block::Choices;

use super::{FileId, Step};

/// How far into files a plan writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To 24 MiB: in F2FS, behind the indirect node's first blocks.
    Near,
    /// To 12 GiB: behind the double indirect node's first blocks.
    Deep,
}

/// What to draw.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub count: usize,
    pub reach: Reach,
    /// Whether `sync(2)` is among the steps. Through FUSE it does not reach a file system.
    pub has_sync: bool,
}

impl Plan {
    /// The words that [`Plan::of_words`] takes.
    pub fn words(self) -> String {
        format!("{} {} {} {}", self.seed, self.count, u8::from(self.reach == Reach::Deep), u8::from(self.has_sync))
    }

    /// The plan of four words.
    pub fn of_words(words: &[&str]) -> Plan {
        let [seed, count, deep, sync] = words else { panic!("four words, not {words:?}") };
        let reach = if *deep == "1" { Reach::Deep } else { Reach::Near };
        Plan { seed: seed.parse().unwrap(), count: count.parse().unwrap(), reach, has_sync: *sync == "1" }
    }
}

/// The steps of a plan.
pub fn steps(plan: Plan) -> Vec<Step> {
    let mut drawing = Drawing {
        plan,
        chance: Choices::new(plan.seed).stream("vm", 0),
        names: BTreeMap::new(),
        files: 0,
        last: None,
        steps: Vec::new(),
    };
    for name in ["d0", "d1"] {
        let file = drawing.new_file();
        drawing.steps.push(Step::Directory { file, name: name.into() });
    }
    while drawing.steps.len() < plan.count {
        drawing.draw();
    }
    drawing.steps
}

struct Drawing {
    plan: Plan,
    chance: Choices,
    /// Names of regular files.
    names: BTreeMap<String, FileId>,
    files: FileId,
    /// The name that was changed last: it is synced more often.
    last: Option<String>,
    steps: Vec<Step>,
}

impl Drawing {
    fn new_file(&mut self) -> FileId {
        self.files += 1;
        self.files
    }

    fn draw(&mut self) {
        let wanted = self.chance.below(100);
        let step = match wanted {
            0..14 => self.create(),
            14..36 => self.write(),
            36..41 => self.on_file(|chance, file, name| Step::Truncate { file, name, size: chance.below(90_000) }),
            41..45 => self.on_file(|chance, file, name| {
                let (offset, length) = (chance.below(60_000), 1 + chance.below(50_000));
                Step::Punch { file, name, offset, length }
            }),
            45..50 => self.attribute(),
            50..57 => self.rename(),
            57..60 => self.link(),
            60..66 => self.unlink(),
            66..68 => self.symlink(),
            68..94 => self.fsync(),
            94..97 => self.sync_names(),
            _ => self.plan.has_sync.then_some(Step::Sync),
        };
        self.steps.extend(step);
    }

    /// A name, in the root or in a directory; one in four is long.
    fn new_name(&mut self) -> String {
        let number = self.chance.below(24);
        let directory = ["", "", "d0/", "d1/"][self.chance.index(4)];
        let tail = if number.is_multiple_of(4) { "-long".repeat(38) } else { String::new() };
        format!("{directory}f{number}{tail}")
    }

    /// A name, if nothing has it.
    fn free_name(&mut self) -> Option<String> {
        let name = self.new_name();
        (!self.names.contains_key(&name)).then_some(name)
    }

    fn some_name(&mut self) -> Option<String> {
        let number = self.chance.index(self.names.len().max(1));
        self.names.keys().nth(number).cloned()
    }

    fn on_file(&mut self, step: impl Fn(&mut Choices, FileId, String) -> Step) -> Option<Step> {
        let name = self.some_name()?;
        self.last = Some(name.clone());
        Some(step(&mut self.chance, self.names[&name], name))
    }

    fn create(&mut self) -> Option<Step> {
        let name = self.free_name()?;
        let file = self.new_file();
        self.names.insert(name.clone(), file);
        self.steps.push(Step::Create { file, name: name.clone() });
        let most = [600, 3_000, 30_000][self.chance.index(3)];
        let length = 1 + self.chance.below(most);
        self.last = Some(name.clone());
        let tag = self.steps.len() as u64;
        Some(Step::Write { file, name, offset: 0, length, tag })
    }

    fn write(&mut self) -> Option<Step> {
        let (kind, tag) = (self.chance.index(8), self.steps.len() as u64);
        let deep = self.plan.reach == Reach::Deep;
        let step = move |chance: &mut Choices, file, name| {
            let (place, most) = match kind {
                0..3 => (chance.below(3_000), 3_000),
                3..6 => (chance.below(100_000), 40_000),
                6 => ((11 << 20) + chance.below(13 << 20), 20_000),
                _ if deep => (([5, 9, 12][chance.index(3)] << 30) + chance.below(1 << 20), 9_000),
                _ => (chance.below(4 << 20), 100_000),
            };
            let aligned = chance.chance(1, 2);
            let offset = if aligned { place / 4096 * 4096 } else { place };
            let length = 1 + chance.below(most);
            Step::Write {
                file,
                name,
                offset,
                length: if aligned { length.next_multiple_of(4096) } else { length },
                tag,
            }
        };
        self.on_file(step)
    }

    fn attribute(&mut self) -> Option<Step> {
        let tag = self.steps.len() as u64;
        self.on_file(move |chance, file, name| {
            let most = [20, 150, 3_000][chance.index(3)];
            let length = 1 + chance.below(most);
            Step::Attribute { file, name, length, tag }
        })
    }

    fn rename(&mut self) -> Option<Step> {
        let from = self.some_name()?;
        let to = self.new_name();
        let file = self.names[&from];
        // Renaming a file to another name of itself does nothing.
        if self.names.get(&to) == Some(&file) {
            return None;
        }
        self.names.remove(&from);
        self.names.insert(to.clone(), file);
        self.last = Some(to.clone());
        Some(Step::Rename { file, from, to })
    }

    fn link(&mut self) -> Option<Step> {
        let (from, to) = (self.some_name()?, self.free_name()?);
        let file = self.names[&from];
        self.names.insert(to.clone(), file);
        Some(Step::Link { file, from, to })
    }

    fn unlink(&mut self) -> Option<Step> {
        let name = self.some_name()?;
        let file = self.names.remove(&name).expect("it has the name");
        let is_last = !self.names.values().any(|other| *other == file);
        Some(Step::Unlink { file, name, holds: is_last && self.chance.chance(1, 2) })
    }

    fn symlink(&mut self) -> Option<Step> {
        let file = self.new_file();
        let length = 1 + self.chance.index(30);
        Some(Step::Symlink { file, name: format!("s{file}"), target: "to/".repeat(length) })
    }

    fn sync_names(&mut self) -> Option<Step> {
        let file = self.new_file();
        Some(Step::SyncNames { file, name: format!("n{file}") })
    }

    fn fsync(&mut self) -> Option<Step> {
        let last = self.last.clone().filter(|name| self.names.contains_key(name) && self.chance.chance(2, 3));
        let name = match last {
            Some(name) => name,
            None => self.some_name()?,
        };
        Some(Step::Fsync { file: self.names[&name], name })
    }
}
