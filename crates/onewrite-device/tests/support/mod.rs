//! A simple model of a device's promises, and a driver that tests a device against it.
//!
//! For each page the model keeps every value since the last known durable one, with the moments of submission and
//! completion. A value is *superseded* by another one if that was submitted after the first had completed. Without a
//! cut a page reads as a completed value that no completed value supersedes. After a cut it reads as any value that no
//! *durable* value supersedes. A value is durable if it completed with FUA or as a SHARE, or before the submission of a
//! completed FLUSH. The targets of a SHARE under way are all old or all new.

use std::collections::BTreeMap;

use onewrite_block::{
    Cause, Choices, Completion, DeviceError, Durable, Lpn, Nanos, Operation, Page, Pattern, PowerCut, PowerLoss, Remap,
    Request, Token, TrimRead,
};
use onewrite_device::ftl::FtlDevice;
use onewrite_device::{HardDisk, Ssd, UnderWay as Inside};

/// Content of a page: 0 for zeros, an odd value for the seed of a pattern, an even value for bytes in memory, which
/// devices can free.
pub type Value = u64;

fn page_of(value: Value) -> Page {
    match value {
        0 => Page::ZEROS,
        value if value.is_multiple_of(2) => Page::from_slice(&value.to_le_bytes()),
        _ => Page::pattern(Pattern { seed: value, compressible_percent: 0 }),
    }
}

/// Whether `page` has the content `value`; for a pattern the handles decide.
fn holds(page: &Page, value: Value) -> bool {
    match page.takes_memory() {
        true => value != 0 && value.is_multiple_of(2) && *page == page_of(value),
        false => page_of(value).same_handle(page),
    }
}

/// When a change becomes durable on a device without a capacitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// At its completion: FUA, SHARE.
    Completion,
    /// At the next FLUSH.
    Flush,
}

#[derive(Clone, Copy, Debug)]
struct Put {
    value: Value,
    submitted: u64,
    completed: Option<u64>,
    is_durable: bool,
}

impl Put {
    fn supersedes(&self, older: &Put) -> bool {
        older.completed.is_some_and(|completed| completed < self.submitted)
    }
}

#[derive(Clone, Debug)]
struct UnderWay {
    operation: Operation,
    values: Vec<Value>,
    submitted: u64,
    /// For a read: the possible values of its pages at submission.
    before: Vec<Vec<Put>>,
}

/// A device that the driver can test against the model.
pub trait Subject: PowerCut {
    /// Internal work at the moment.
    fn inside(&self) -> Inside {
        Inside::default()
    }

    /// Whether it may refuse writes.
    fn gave_up(&self) -> bool {
        false
    }
}

impl Subject for Ssd {
    fn inside(&self) -> Inside {
        self.under_way()
    }

    fn gave_up(&self) -> bool {
        self.is_worn_out()
    }
}

impl Subject for HardDisk {}

impl Subject for FtlDevice {
    fn inside(&self) -> Inside {
        self.under_way()
    }
}

/// A device under test with its model.
pub struct Driver<D: Subject> {
    pub device: D,
    pages: Vec<Vec<Put>>,
    under_way: BTreeMap<u32, UnderWay>,
    clock: u64,
    next_token: u32,
    next_value: Value,
    pub now: Nanos,
    pub requests: u64,
    /// A recovery is cut within this many cut points.
    pub recovery_points: u64,
    pub cuts: u64,
    pub cuts_in_recovery: u64,
    pub cuts_in_collection: u64,
    pub cuts_in_map_log: u64,
    pub cuts_in_share: u64,
    pub cuts_in_erase: u64,
}

impl<D: Subject> Driver<D> {
    pub fn new(device: D) -> Driver<D> {
        let count = device.geometry().pages as usize;
        let blank = Put { value: 0, submitted: 0, completed: Some(0), is_durable: true };
        Driver {
            device,
            pages: vec![vec![blank]; count],
            under_way: BTreeMap::new(),
            clock: 1,
            next_token: 0,
            next_value: 1,
            now: Nanos::ZERO,
            requests: 0,
            recovery_points: 8,
            cuts: 0,
            cuts_in_recovery: 0,
            cuts_in_collection: 0,
            cuts_in_map_log: 0,
            cuts_in_share: 0,
            cuts_in_erase: 0,
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The value of a page, if only one is possible.
    pub fn settled_value(&self, lpn: u64) -> Option<Value> {
        match self.pages[lpn as usize][..] {
            [one] if one.completed.is_some() => Some(one.value),
            _ => None,
        }
    }

    fn submit(&mut self, operation: Operation, values: Vec<Value>) -> u32 {
        let submitted = self.tick();
        let token = self.next_token;
        self.next_token += 1;
        self.requests += 1;
        for (lpn, value) in changed(&operation).into_iter().zip(&values) {
            self.pages[lpn as usize].push(Put { value: *value, submitted, completed: None, is_durable: false });
        }
        let before = match &operation {
            Operation::Read { start, count } => {
                self.pages[start.0 as usize..start.0 as usize + *count as usize].to_vec()
            }
            _ => Vec::new(),
        };
        self.device.submit(Token(token), Request::new(operation.clone(), Cause::Data), self.now);
        self.under_way.insert(token, UnderWay { operation, values, submitted, before });
        token
    }

    pub fn write(&mut self, start: u64, count: u64) -> u32 {
        self.submit_write(start, count, Promise::Flush)
    }

    pub fn write_fua(&mut self, start: u64, count: u64) -> u32 {
        self.submit_write(start, count, Promise::Completion)
    }

    fn submit_write(&mut self, start: u64, count: u64, promise: Promise) -> u32 {
        let values: Vec<Value> = (self.next_value..).take(count as usize).collect();
        self.next_value += count;
        let pages = values.iter().map(|&value| page_of(value)).collect();
        let durable = if promise == Promise::Completion { Durable::OnCompletion } else { Durable::AfterFlush };
        self.submit(Operation::Write { start: Lpn(start), pages, durable }, values)
    }

    pub fn trim(&mut self, start: u64, count: u64) -> u32 {
        self.submit(Operation::Trim { start: Lpn(start), count }, vec![0; count as usize])
    }

    pub fn flush(&mut self) -> u32 {
        self.submit(Operation::Flush, Vec::new())
    }

    pub fn read(&mut self, start: u64, count: u32) -> u32 {
        self.submit(Operation::Read { start: Lpn(start), count }, Vec::new())
    }

    /// Shares pairs. Each source must have one possible value and hold content.
    pub fn share(&mut self, pairs: Vec<Remap>) -> u32 {
        let value = |pair: &Remap| self.settled_value(pair.source.0).expect("a settled source");
        let values = pairs.iter().map(value).collect();
        self.submit(Operation::Share(pairs), values)
    }

    /// Whether a change of the page is under way.
    pub fn is_changing(&self, lpn: u64) -> bool {
        self.under_way.values().any(|request| changed(&request.operation).contains(&lpn))
    }

    /// Whether a SHARE under way names the page as source or target.
    pub fn is_being_shared(&self, lpn: u64) -> bool {
        self.under_way.values().any(|request| match &request.operation {
            Operation::Share(pairs) => pairs.iter().any(|pair| pair.source.0 == lpn || pair.target.0 == lpn),
            _ => false,
        })
    }

    pub fn queue_length(&self) -> usize {
        self.under_way.len()
    }

    /// Lets the next event happen; false if there is none.
    pub fn step(&mut self) -> bool {
        let Some(moment) = self.device.next_event().moment() else { return false };
        self.now = moment;
        let mut completed = Vec::new();
        self.device.advance(moment, &mut completed);
        completed.into_iter().for_each(|completion| self.completed(completion));
        true
    }

    /// Runs until nothing is under way.
    pub fn drain(&mut self) {
        while !self.under_way.is_empty() {
            assert!(self.step(), "requests hang: {:?}", self.under_way);
        }
    }

    /// Runs until `token` has completed.
    pub fn finish(&mut self, token: u32) {
        while self.under_way.contains_key(&token) {
            assert!(self.step(), "request hangs: {:?}", self.under_way);
        }
    }

    fn completed(&mut self, completion: Completion) {
        let request = self.under_way.remove(&completion.token.0).expect("completes once");
        let moment = self.tick();
        let content = match completion.outcome {
            Err(DeviceError::WornOut { .. } | DeviceError::FlushFailed) if self.device.gave_up() => return,
            outcome => outcome.unwrap_or_else(|error| panic!("{:?}: {error}", request.operation)),
        };
        match &request.operation {
            Operation::Read { start, .. } => {
                for ((lpn, page), before) in (start.0..).zip(&content).zip(&request.before) {
                    self.judge_read(lpn, page, request.submitted, before);
                }
            }
            Operation::Flush => self.persist_completed_before(request.submitted),
            Operation::Write { durable: Durable::AfterFlush, .. } | Operation::Trim { .. } => {
                self.put_completed(&request, moment, Promise::Flush);
            }
            Operation::Write { durable: Durable::OnCompletion, .. } | Operation::Share(_) => {
                self.put_completed(&request, moment, Promise::Completion);
            }
        }
    }

    fn put_completed(&mut self, request: &UnderWay, moment: u64, promise: Promise) {
        let keeps_completed = self.device.geometry().on_power_loss == PowerLoss::KeepsCompleted;
        for lpn in changed(&request.operation) {
            let puts = &mut self.pages[lpn as usize];
            let put = puts.iter_mut().find(|put| put.submitted == request.submitted).expect("was put");
            put.completed = Some(moment);
            put.is_durable |= promise == Promise::Completion || keeps_completed;
            forget_superseded(puts);
        }
    }

    fn persist_completed_before(&mut self, submitted: u64) {
        for puts in &mut self.pages {
            if let [one] = &mut puts[..] {
                one.is_durable |= one.completed.is_some_and(|completed| completed < submitted);
                continue;
            }
            for put in puts.iter_mut() {
                put.is_durable |= put.completed.is_some_and(|completed| completed < submitted);
            }
            forget_superseded(puts);
        }
    }

    fn judge_read(&self, lpn: u64, page: &Page, submitted: u64, earlier: &[Put]) {
        let since = self.pages[lpn as usize].iter().filter(|put| put.submitted > submitted);
        let puts: Vec<Put> = earlier.iter().chain(since).copied().collect();
        let before = |put: &&Put| put.completed.is_some_and(|completed| completed < submitted);
        let allowed = |put: &&Put| !puts.iter().filter(before).any(|newer| newer.supersedes(put));
        let matches = puts.iter().filter(allowed).any(|put| holds(page, put.value));
        assert!(matches, "page {lpn} reads {page:?}, submitted at {submitted}; {puts:?}");
    }

    /// Cuts the power, recovers (with up to `recovery_cuts` more cuts), and judges every page.
    pub fn cut_and_recover(&mut self, choices: &mut Choices, recovery_cuts: u32) {
        self.cuts += 1;
        let inside = self.device.inside();
        self.cuts_in_collection += u64::from(inside.collection);
        self.cuts_in_map_log += u64::from(inside.map_log);
        self.cuts_in_share += u64::from(inside.share);
        self.cuts_in_erase += u64::from(inside.erase);
        self.device.cut(choices);
        for _ in 0..recovery_cuts {
            let point = self.device.cut_points() + 1 + choices.below(self.recovery_points);
            self.device.arm(point);
            if self.device.recover(self.now) == Err(DeviceError::PowerLost) {
                self.cuts_in_recovery += 1;
            }
            self.device.cut(choices);
        }
        self.device.arm(u64::MAX);
        self.device.recover(self.now).expect("recovers");
        self.device.check().unwrap_or_else(|problem| panic!("after recovery: {problem}"));
        let lost = std::mem::take(&mut self.under_way);
        let found = self.read_all();
        self.judge_shares(&lost, &found);
        for (lpn, value) in found.into_iter().enumerate() {
            self.judge_survivor(lpn, value);
            self.pages[lpn] = vec![Put { value, submitted: 0, completed: Some(0), is_durable: true }];
        }
    }

    fn read_all(&mut self) -> Vec<Value> {
        let pages = self.device.geometry().pages;
        let most = u64::from(self.device.geometry().transfer_pages_max);
        let mut found = Vec::with_capacity(pages as usize);
        for start in (0..pages).step_by(most as usize) {
            let request = Request::read(Lpn(start), most.min(pages - start) as u32, Cause::Data);
            self.device.submit(Token(u32::MAX), request, self.now);
            let mut completed = Vec::new();
            while completed.is_empty() {
                self.now = self.device.next_event().moment().expect("a read goes on");
                self.device.advance(self.now, &mut completed);
            }
            let content = completed.pop().expect("one").outcome.expect("a read after recovery succeeds");
            found.extend(content.iter().map(|page| self.value_of(page)));
        }
        found
    }

    fn value_of(&self, page: &Page) -> Value {
        if page.same_handle(&Page::ZEROS) {
            return 0;
        }
        let text = format!("{page:?}");
        let digits = || text.chars().filter(char::is_ascii_digit).collect::<String>();
        let value = match page.takes_memory() {
            true => Some(u64::from_le_bytes(page.bytes()[..8].try_into().expect("eight bytes"))),
            // "Pattern { seed: N, compressible_percent: 0 }"
            false => digits()[..digits().len() - 1].parse().ok(),
        };
        let value = value.unwrap_or_else(|| panic!("foreign content {text}"));
        assert!(holds(page, value), "foreign content {text}");
        value
    }

    fn judge_survivor(&self, lpn: usize, value: Value) {
        let puts = &self.pages[lpn];
        let durable = || puts.iter().filter(|put| put.is_durable);
        let allowed = puts.iter().filter(|put| !durable().any(|newer| newer.supersedes(put)));
        let mut allowed = allowed.map(|put| put.value);
        assert!(allowed.any(|one| one == value), "page {lpn} holds {value} after the cut; {puts:?}");
    }

    fn judge_shares(&self, lost: &BTreeMap<u32, UnderWay>, found: &[Value]) {
        for request in lost.values() {
            let Operation::Share(pairs) = &request.operation else { continue };
            let is_new = |(pair, value): (&Remap, &Value)| found[pair.target.0 as usize] == *value;
            let was_new = |(pair, value): (&Remap, &Value)| self.pages[pair.target.0 as usize][0].value == *value;
            let telling = pairs.iter().zip(&request.values).filter(|pair| !was_new(*pair));
            let news: Vec<bool> = telling.map(is_new).collect();
            let same = news.iter().all(|&new| new == news[0]);
            assert!(same, "half a SHARE: {pairs:?} {news:?}");
        }
    }
}

/// The pages that an operation changes.
fn changed(operation: &Operation) -> Vec<u64> {
    match operation {
        Operation::Write { start, pages, .. } => (start.0..start.0 + pages.len() as u64).collect(),
        Operation::Trim { start, count } => (start.0..start.0 + count).collect(),
        Operation::Share(pairs) => pairs.iter().map(|pair| pair.target.0).collect(),
        Operation::Read { .. } | Operation::Flush => Vec::new(),
    }
}

/// Drops values that cannot come back: a durable value supersedes them.
fn forget_superseded(puts: &mut Vec<Put>) {
    let durable: Vec<Put> = puts.iter().filter(|put| put.is_durable).copied().collect();
    puts.retain(|put| !durable.iter().any(|newer| newer.supersedes(put)));
}

/// Weight of each operation in the random choice.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub write: u64,
    pub fua: u64,
    pub flush: u64,
    pub trim: u64,
    pub share: u64,
    pub read: u64,
    /// Most pages of a write, trim or share.
    pub pages_max: u64,
    /// Requests touch only the first `range` pages.
    pub range: u64,
    /// Most requests at once.
    pub depth: usize,
}

impl<D: Subject> Driver<D> {
    /// Submits one random request of `mix`.
    pub fn submit_random(&mut self, mix: &Mix, choices: &mut Choices) {
        let geometry = self.device.geometry().clone();
        let count = 1 + choices.below(mix.pages_max.min(u64::from(geometry.transfer_pages_max)));
        let start = choices.below(mix.range - count);
        let mut draw = choices.below(mix.write + mix.fua + mix.flush + mix.trim + mix.share + mix.read);
        let mut is_drawn = |weight: u64| {
            let hit = draw < weight;
            draw = draw.wrapping_sub(weight);
            hit
        };
        let is_free = |driver: &Driver<D>| !(start..start + count).any(|lpn| driver.is_being_shared(lpn));
        if is_drawn(mix.write) && is_free(self) {
            self.write(start, count);
        } else if is_drawn(mix.fua) && is_free(self) && geometry.fua {
            self.write_fua(start, count);
        } else if is_drawn(mix.flush) {
            self.flush();
        } else if is_drawn(mix.trim) && is_free(self) && geometry.trim_read != TrimRead::Unsupported {
            self.trim(start, count);
        } else if is_drawn(mix.share) && geometry.share_pairs_max > 0 {
            self.share_random(mix, count.min(u64::from(geometry.share_pairs_max)), choices);
        } else {
            self.read(start, count as u32);
        }
    }

    fn share_random(&mut self, mix: &Mix, count: u64, choices: &mut Choices) {
        let mut pairs: Vec<Remap> = Vec::new();
        for _ in 0..count {
            let (target, source) = (choices.below(mix.range), choices.below(mix.range));
            let is_named = |lpn| pairs.iter().any(|pair| pair.target.0 == lpn || pair.source.0 == lpn);
            let is_source = self.settled_value(source).is_some_and(|value| value != 0) && !self.is_changing(source);
            let is_quiet = !self.is_changing(target) && !self.is_being_shared(target) && !self.is_being_shared(source);
            if target != source
                && is_source
                && is_quiet
                && !is_named(target)
                && !pairs.iter().any(|pair| pair.target.0 == source)
            {
                pairs.push(Remap { target: Lpn(target), source: Lpn(source) });
            }
        }
        if !pairs.is_empty() {
            self.share(pairs);
        }
    }

    /// Runs `requests` random requests, with a cut after about every `pace` cut points.
    pub fn torture(&mut self, mix: &Mix, requests: u64, pace: u64, choices: &mut Choices) {
        let end = self.requests + requests;
        while self.requests < end {
            let point = self.device.cut_points() + 1 + choices.below(2 * pace);
            self.device.arm(point);
            while !self.device.is_dark() && self.requests < end {
                let target = choices.index(mix.depth + 1);
                while self.queue_length() > target && self.step() {}
                if self.device.is_dark() {
                    break;
                }
                if self.queue_length() < self.device.geometry().queue_depth as usize {
                    self.submit_random(mix, choices);
                }
                for _ in 0..choices.below(4) {
                    self.step();
                }
            }
            let again = choices.below(3) as u32;
            self.cut_and_recover(choices, again);
        }
    }
}
