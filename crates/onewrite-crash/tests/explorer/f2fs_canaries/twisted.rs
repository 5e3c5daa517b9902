//! Twisted: a device that disobeys. A twist sees each request of the file system, and changes it, leaves it out, or
//! adds writes of its own. What is left out is acknowledged, and read back as if it were there.

use onewrite_block::{Device, Lpn, Operation, Request, Token};

use crate::support::disobedient::{Disk, Manner, disobedient};

/// What becomes of a request.
pub enum Fate {
    /// It is passed on.
    Passes,
    /// It is acknowledged, and nothing happens.
    IsLost,
    /// It is passed on, and these behind it.
    IsFollowedBy(Vec<Request>),
}

/// What a device does wrong.
pub trait Twist: 'static {
    fn fate(&mut self, request: &mut Request) -> Fate;
}

struct Twisted<T>(T);

/// A twisted device over `inner`.
pub fn twisted<T: Twist>(inner: Box<dyn Device>, twist: T) -> Box<dyn Device> {
    disobedient(inner, Twisted(twist))
}

/// Remembers the pages of a write that reach the disk changed, or not at all.
fn hold(disk: &mut Disk, asked: &Request, done: Option<&Request>) {
    let Operation::Write { start, pages, .. } = &asked.operation else { return };
    for (place, (lpn, page)) in (start.0..).map(Lpn).zip(pages).enumerate() {
        let written = done.and_then(|done| match &done.operation {
            Operation::Write { pages, .. } => pages.get(place),
            _ => None,
        });
        disk.believe(lpn, (written != Some(page)).then(|| page.clone()));
    }
}

impl<T: Twist> Manner for Twisted<T> {
    fn submitted(&mut self, disk: &mut Disk, token: Token, request: Request) {
        let mut done = request.clone();
        match self.0.fate(&mut done) {
            Fate::IsLost => {
                hold(disk, &request, None);
                disk.acknowledge(token);
            }
            Fate::Passes => {
                hold(disk, &request, Some(&done));
                disk.pass(token, done);
            }
            Fate::IsFollowedBy(own) => {
                hold(disk, &request, Some(&done));
                disk.pass(token, done);
                own.into_iter().for_each(|request| disk.add(request));
            }
        }
    }
}
