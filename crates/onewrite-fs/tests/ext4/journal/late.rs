//! A RAM disk on which each command takes its own time. A command takes effect when its time is over.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::{Completion, Counters, Device, Geometry, Image, Nanos, NextEvent, RamDisk, Request, Token};

/// How long a command takes.
pub type Span = fn(&Request) -> Nanos;

/// The disk inside, which the test keeps to look at.
pub type Platter = Rc<RefCell<RamDisk>>;

/// See the module's head.
pub struct Late {
    disk: Platter,
    geometry: Geometry,
    span: Span,
    /// Commands under way, with their ends.
    under_way: Vec<(Nanos, Token, Request)>,
}

impl Late {
    /// A disk of zeros that loses nothing that took effect, and the disk inside.
    pub fn new(geometry: &Geometry, span: Span) -> (Late, Platter) {
        let disk = RamDisk::with_image(Image::new(geometry.pages), geometry.clone());
        Late::on(disk, span)
    }

    /// `disk`, but late.
    pub fn on(disk: RamDisk, span: Span) -> (Late, Platter) {
        let geometry = disk.geometry().clone();
        let disk = Rc::new(RefCell::new(disk));
        (Late { disk: Rc::clone(&disk), geometry, span, under_way: Vec::new() }, disk)
    }

    /// Takes out the command that ends first, if it ends up to `to`.
    fn ended(&mut self, to: Nanos) -> Option<(Nanos, Token, Request)> {
        let first = self.under_way.iter().enumerate().min_by_key(|(_, (end, token, _))| (*end, *token));
        let (index, _) = first.filter(|(_, (end, ..))| *end <= to)?;
        Some(self.under_way.remove(index))
    }
}

impl Device for Late {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.under_way.push((now + (self.span)(&request), token, request));
    }

    fn next_event(&self) -> NextEvent {
        self.under_way.iter().map(|(end, ..)| *end).min().into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        while let Some((end, token, request)) = self.ended(to) {
            let mut disk = self.disk.borrow_mut();
            disk.submit(token, request, end);
            disk.advance(end, completed);
        }
    }

    fn counters(&self) -> Counters {
        self.disk.borrow().counters()
    }

    fn reset_counters(&mut self) {
        self.disk.borrow_mut().reset_counters();
    }
}
