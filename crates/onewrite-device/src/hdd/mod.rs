//! Hard disk: one arm, a turning platter, a volatile write cache.
//!
//! ```text
//!   write ──link──► cache ──arm──► platter        read ──► cache or look-ahead, else arm ──link──► host
//! ```
//!
//! The arm does one thing at a time. Reads go before cached pages. Among several, the read or cached run that comes
//! under the head first goes first. Cached pages leave when the arm has nothing else to do, when the cache is full, or
//! when a FLUSH covers them. After a read the disk reads ahead: the following pages come from the look-ahead at the
//! speed of the platter.
//!
//! A power cut loses the cache. A page is written whole or not at all.

mod mechanics;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;

use onewrite_block::{
    Choices, Completion, Counters, Device, DeviceError, Geometry, Image, Lpn, Nanos, NextEvent, Operation, Page,
    PowerCut, RecoveryReport, Request, Token,
};

use crate::gate::{Gate, Queuing};
pub(crate) use mechanics::Mechanics;

/// Most pages in one write of the arm.
const RUN_PAGES_MAX: u64 = 256;
/// Most cached runs on each side of the head that the arm compares.
const CANDIDATES: usize = 32;
/// Most pages that the disk reads ahead.
const LOOK_AHEAD_PAGES: u64 = 512;
/// If more reads than this wait, the oldest goes first.
const PATIENCE: usize = 64;

/// Everything that stays constant during the life of a disk, in nanoseconds and pages.
#[derive(Clone, Debug)]
pub(crate) struct DiskModel {
    pub(crate) geometry: Geometry,
    pub(crate) mechanics: Mechanics,
    pub(crate) command: u64,
    /// Time of a FLUSH that has pages to write, without the writes.
    pub(crate) flush: u64,
    pub(crate) link_page: u64,
    pub(crate) cache_pages: usize,
    /// Which commands the disk holds at once.
    pub(crate) queuing: Queuing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestStage {
    Decoded,
    Arrived,
    Done,
}

#[derive(Clone, Debug)]
struct Cached {
    page: Page,
    ticket: u64,
}

/// The pages that the disk reads ahead: from `start` on, since `since`.
#[derive(Clone, Copy, Debug)]
struct LookAhead {
    start: Lpn,
    since: u64,
}

impl LookAhead {
    /// The pages that it may contain.
    fn pages(&self) -> Range<Lpn> {
        self.start..self.start.offset(LOOK_AHEAD_PAGES)
    }
}

/// A future stage of a request. The earliest goes first; of equal moments, the one set first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    moment: u64,
    number: u64,
    token: u32,
    stage: RequestStage,
}

#[derive(Clone, Debug)]
enum Arm {
    Rests,
    Reads { token: Token, end: u64 },
    Writes { start: Lpn, pages: Vec<Cached>, end: u64 },
}

/// An emulated hard disk; see the module's head.
#[derive(Clone, Debug)]
pub struct HardDisk {
    model: DiskModel,
    platter: Image,
    cache: BTreeMap<Lpn, Cached>,
    next_ticket: u64,
    arm: Arm,
    /// The page that last passed under the head.
    head: Lpn,
    look_ahead: Option<LookAhead>,
    gate: Gate<Token>,
    active: BTreeMap<u32, (Request, Vec<Page>)>,
    stages: BinaryHeap<Reverse<Due>>,
    stages_set: u64,
    reads: VecDeque<Token>,
    arriving: VecDeque<Token>,
    flushes: VecDeque<(Token, u64)>,
    failed: BTreeMap<u32, DeviceError>,
    link_free: u64,
    now: u64,
    counters: Counters,
    cut_points: u64,
    armed: Option<u64>,
    is_dark: bool,
    is_cut: bool,
}

impl HardDisk {
    pub(crate) fn new(model: DiskModel) -> HardDisk {
        HardDisk {
            platter: Image::new(model.geometry.pages),
            gate: Gate::new(model.queuing),
            model,
            cache: BTreeMap::new(),
            next_ticket: 1,
            arm: Arm::Rests,
            head: Lpn(0),
            look_ahead: None,
            active: BTreeMap::new(),
            stages: BinaryHeap::new(),
            stages_set: 0,
            reads: VecDeque::new(),
            arriving: VecDeque::new(),
            flushes: VecDeque::new(),
            failed: BTreeMap::new(),
            link_free: 0,
            now: 0,
            counters: Counters::default(),
            cut_points: 0,
            armed: None,
            is_dark: false,
            is_cut: false,
        }
    }

    fn at(&mut self, moment: u64, token: Token, stage: RequestStage) {
        self.stages_set += 1;
        self.stages.push(Reverse(Due { moment, number: self.stages_set, token: token.0, stage }));
    }

    /// Begins with the requests that may begin now.
    fn begin_next(&mut self) {
        while let Some(token) = self.gate.next() {
            self.at(self.now + self.model.command, token, RequestStage::Decoded);
        }
    }

    fn cross_link(&mut self, pages: u64) -> u64 {
        self.link_free = self.link_free.max(self.now) + pages * self.model.link_page;
        self.link_free
    }

    fn arm_moment(&self) -> u64 {
        match &self.arm {
            Arm::Rests => u64::MAX,
            Arm::Reads { end, .. } | Arm::Writes { end, .. } => *end,
        }
    }

    fn next_moment(&self) -> Option<u64> {
        let stage = self.stages.peek().map_or(u64::MAX, |Reverse(due)| due.moment);
        let moment = stage.min(self.arm_moment());
        (moment < u64::MAX && !self.is_dark).then_some(moment)
    }

    fn decoded(&mut self, token: Token) {
        let request = &self.active[&token.0].0;
        if let Err(error) = self.model.geometry.admit(request) {
            self.failed.insert(token.0, error);
            return self.at(self.now, token, RequestStage::Done);
        }
        self.counters.count(request);
        match &request.operation {
            Operation::Read { .. } => self.read(token),
            Operation::Write { pages, .. } => {
                let end = self.cross_link(pages.len() as u64);
                self.at(end, token, RequestStage::Arrived);
            }
            Operation::Flush if self.cache.is_empty() && !matches!(self.arm, Arm::Writes { .. }) => {
                self.at(self.now, token, RequestStage::Done);
            }
            Operation::Flush => {
                self.flushes.push_back((token, self.next_ticket - 1));
                self.advance_flushes();
            }
            Operation::Trim { .. } | Operation::Share(_) => unreachable!("refused by the geometry"),
        }
    }

    fn current(&self, lpn: Lpn) -> Page {
        let cached = self.cache.get(&lpn).map(|cached| cached.page.clone());
        let written = || match &self.arm {
            Arm::Writes { start, pages, .. } if (*start..start.offset(pages.len() as u64)).contains(&lpn) => {
                Some(pages[(lpn.0 - start.0) as usize].page.clone())
            }
            _ => None,
        };
        cached.or_else(written).unwrap_or_else(|| self.platter.page(lpn).clone())
    }

    fn read(&mut self, token: Token) {
        let Range { start, end } = self.read_range(token);
        let range = || (start.0..end.0).map(Lpn);
        let count = end.0 - start.0;
        self.active.get_mut(&token.0).expect("under way").1 = range().map(|lpn| self.current(lpn)).collect();
        if range().all(|lpn| self.cache.contains_key(&lpn)) {
            return self.send(token, self.now, count);
        }
        match self.look_ahead {
            Some(ahead) if start >= ahead.start && end <= ahead.pages().end => {
                let ready = ahead.since + self.model.mechanics.transfer(&(ahead.start..end));
                self.look_ahead = Some(LookAhead { start: end, since: ready });
                self.send(token, ready.max(self.now), count);
            }
            _ => self.reads.push_back(token),
        }
    }

    fn send(&mut self, token: Token, ready: u64, count: u64) {
        let end = self.link_free.max(ready) + count * self.model.link_page;
        self.link_free = end;
        self.at(end, token, RequestStage::Done);
    }

    /// Moves arrived writes into the cache, in order, while there is room.
    fn admit_arrived(&mut self) {
        while let Some(&token) = self.arriving.front() {
            let (request, _) = &self.active[&token.0];
            let Operation::Write { start, pages, .. } = &request.operation else { unreachable!("only writes arrive") };
            if self.cache.len() + pages.len() > self.model.cache_pages && !self.cache.is_empty() {
                return;
            }
            for (lpn, page) in (start.0..).map(Lpn).zip(pages.clone()) {
                self.keep(lpn, page);
            }
            self.arriving.pop_front();
            self.at(self.now, token, RequestStage::Done);
        }
    }

    /// Puts a page into the cache. If a FLUSH covers the old content, it covers the new content, too.
    fn keep(&mut self, lpn: Lpn, page: Page) {
        let target = self.flushes.back().map_or(0, |(_, target)| *target);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let before = self.cache.get(&lpn).map(|cached| cached.ticket).filter(|before| *before <= target);
        self.cache.insert(lpn, Cached { page, ticket: before.unwrap_or(ticket) });
        if self.look_ahead.is_some_and(|ahead| ahead.pages().contains(&lpn)) {
            self.look_ahead = None;
        }
    }

    fn advance_flushes(&mut self) {
        let Some(&(_, last)) = self.flushes.back() else { return };
        let writing = match &self.arm {
            Arm::Writes { pages, .. } => pages.iter().map(|cached| cached.ticket).min(),
            _ => None,
        };
        let cached = self.cache.values().map(|cached| cached.ticket).filter(|ticket| *ticket <= last).min();
        let oldest = writing.into_iter().chain(cached).min().unwrap_or(u64::MAX);
        while let Some(&(token, target)) = self.flushes.front() {
            if oldest <= target {
                return;
            }
            self.flushes.pop_front();
            self.at(self.now + self.model.flush, token, RequestStage::Done);
        }
    }

    /// Gives work to a resting arm.
    fn start_arm(&mut self) {
        if !matches!(self.arm, Arm::Rests) || self.is_dark {
            return;
        }
        if let Some(index) = self.nearest_read() {
            let token = self.reads.remove(index).expect("it was seen");
            return self.begin_read(token);
        }
        if let Some(start) = self.nearest_run() {
            self.begin_write(start);
        }
    }

    /// The pages of a read.
    fn read_range(&self, token: Token) -> Range<Lpn> {
        match self.active[&token.0].0.operation {
            Operation::Read { start, count } => start..start.offset(u64::from(count)),
            _ => unreachable!("it is a read"),
        }
    }

    /// When a page comes under the head.
    fn arrival(&self, page: Lpn) -> u64 {
        self.model.mechanics.arrival(self.now, self.head, page)
    }

    fn nearest_read(&self) -> Option<usize> {
        if self.reads.len() > PATIENCE {
            return Some(0);
        }
        let arrival = |index: &usize| self.arrival(self.read_range(self.reads[*index]).start);
        (0..self.reads.len()).min_by_key(arrival)
    }

    fn begin_read(&mut self, token: Token) {
        let pages = self.read_range(token);
        let end = self.arrival(pages.start) + self.model.mechanics.transfer(&pages);
        self.arm = Arm::Reads { token, end };
    }

    /// The first page of the cached run that comes under the head first, among the runs on both sides of it.
    fn nearest_run(&self) -> Option<Lpn> {
        let target = self.flushes.back().map(|(_, target)| *target);
        let is_wanted = |cached: &Cached| target.is_none_or(|target| cached.ticket <= target);
        let begins_run = |lpn: &Lpn| lpn.0 == 0 || !self.cache.contains_key(&Lpn(lpn.0 - 1));
        let above = self.cache.range(self.head..).filter(|(lpn, cached)| is_wanted(cached) && begins_run(lpn));
        let below = self.cache.range(..self.head).rev().filter(|(lpn, cached)| is_wanted(cached) && begins_run(lpn));
        let near = above.take(CANDIDATES).chain(below.take(CANDIDATES)).map(|(lpn, _)| *lpn);
        let nearest = near.min_by_key(|lpn| self.arrival(*lpn));
        // A covered page may lie inside a run that starts with an uncovered page.
        nearest.or_else(|| self.cache.iter().find(|(_, cached)| is_wanted(cached)).map(|(lpn, _)| *lpn))
    }

    fn begin_write(&mut self, start: Lpn) {
        let mut pages = Vec::new();
        while let Some(cached) = self.cache.remove(&start.offset(pages.len() as u64)) {
            pages.push(cached);
            if pages.len() as u64 == RUN_PAGES_MAX {
                break;
            }
        }
        let written = start..start.offset(pages.len() as u64);
        let end = self.arrival(start) + self.model.mechanics.transfer(&written);
        self.look_ahead = None;
        self.arm = Arm::Writes { start, pages, end };
    }

    fn arm_ended(&mut self) {
        match std::mem::replace(&mut self.arm, Arm::Rests) {
            Arm::Rests => unreachable!("a resting arm has no event"),
            Arm::Reads { token, .. } => {
                let Range { start, end } = self.read_range(token);
                self.head = Lpn(end.0 - 1);
                self.look_ahead = Some(LookAhead { start: end, since: self.now });
                self.send(token, self.now, end.0 - start.0);
            }
            Arm::Writes { start, pages, .. } => {
                self.head = start.offset(pages.len() as u64 - 1);
                for (lpn, cached) in (start.0..).map(Lpn).zip(pages) {
                    self.platter.set(lpn, cached.page);
                }
                self.admit_arrived();
                self.advance_flushes();
            }
        }
    }

    fn stage(&mut self, completed: &mut Vec<Completion>) {
        let Reverse(due) = self.stages.pop().expect("a stage was seen");
        let token = Token(due.token);
        match due.stage {
            RequestStage::Decoded => self.decoded(token),
            RequestStage::Arrived => {
                self.arriving.push_back(token);
                self.admit_arrived();
            }
            RequestStage::Done => {
                let (_, pages) = self.active.remove(&token.0).expect("a request ends once");
                self.gate.leave();
                self.begin_next();
                let outcome = self.failed.remove(&token.0).map_or(Ok(pages), Err);
                completed.push(Completion { token, outcome });
            }
        }
    }
}

impl Device for HardDisk {
    fn geometry(&self) -> &Geometry {
        &self.model.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        assert!(now.0 >= self.now, "submitted at {now}, after {}", Nanos(self.now));
        let depth = self.model.geometry.queue_depth as usize;
        assert!(self.active.len() < depth, "more than {depth} requests under way");
        self.now = now.0;
        self.gate.join(token, self.gate.is_alone(&request.operation));
        self.active.insert(token.0, (request, Vec::new()));
        self.begin_next();
    }

    fn next_event(&self) -> NextEvent {
        self.next_moment().map(|moment| Nanos(moment.max(self.now))).into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= to.0) {
            self.now = self.now.max(moment);
            self.cut_points += 1;
            self.is_dark |= self.armed == Some(self.cut_points);
            if self.is_dark {
                return;
            }
            if self.arm_moment() <= moment {
                self.arm_ended();
            } else {
                self.stage(completed);
            }
            self.start_arm();
        }
        self.now = self.now.max(to.0);
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn is_dark(&self) -> bool {
        self.is_dark
    }

    fn as_power_cut(&mut self) -> Option<&mut dyn PowerCut> {
        Some(self)
    }
}

impl PowerCut for HardDisk {
    fn cut_points(&self) -> u64 {
        self.cut_points
    }

    fn arm(&mut self, point: u64) {
        self.armed = Some(point);
        self.is_dark |= self.cut_points >= point;
    }

    fn fork(&self) -> Box<dyn PowerCut> {
        Box::new(self.clone())
    }

    fn cut(&mut self, choices: &mut Choices) {
        (self.is_dark, self.is_cut) = (true, true);
        if let Arm::Writes { start, pages, .. } = std::mem::replace(&mut self.arm, Arm::Rests) {
            let reached = choices.index(pages.len() + 1);
            for (lpn, cached) in (start.0..).map(Lpn).zip(pages).take(reached) {
                self.platter.set(lpn, cached.page);
            }
        }
        self.cache.clear();
        self.gate = Gate::new(self.model.queuing);
        self.active.clear();
        self.stages.clear();
        self.reads.clear();
        self.arriving.clear();
        self.flushes.clear();
        self.failed.clear();
        self.look_ahead = None;
    }

    fn recover(&mut self, now: Nanos) -> Result<RecoveryReport, DeviceError> {
        if !self.is_cut {
            self.cut(&mut Choices::new(self.cut_points));
        }
        self.now = self.now.max(now.0);
        (self.is_dark, self.is_cut) = (false, false);
        self.armed = self.armed.filter(|point| *point > self.cut_points);
        (self.head, self.link_free) = (Lpn(0), self.now);
        Ok(RecoveryReport::default())
    }

    fn check(&self) -> Result<(), String> {
        match self.cache.len() > self.model.cache_pages + self.model.geometry.transfer_pages_max as usize {
            true => Err(format!("{} pages in a cache of {}", self.cache.len(), self.model.cache_pages)),
            false => Ok(()),
        }
    }
}
