//! Models of the policies that remember pages that have left.

use std::collections::BTreeSet;

use crate::Model;

type Dirty = BTreeSet<u64>;

/// Megiddo and Modha's figure 4 with their names; newest last.
pub struct Arc {
    c: usize,
    p: f64,
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Vec<u64>,
    b2: Vec<u64>,
}

impl Arc {
    pub fn new(capacity: u32) -> Arc {
        Arc { c: capacity as usize, p: 0.0, t1: vec![], t2: vec![], b1: vec![], b2: vec![] }
    }

    fn replace(&mut self, incoming: u64) -> u64 {
        let length = self.t1.len() as f64;
        let from_once = !self.t1.is_empty() && (length > self.p || (self.b2.contains(&incoming) && length == self.p));
        let (list, ghosts) =
            if from_once || self.t2.is_empty() { (&mut self.t1, &mut self.b1) } else { (&mut self.t2, &mut self.b2) };
        let victim = list.remove(0);
        ghosts.push(victim);
        victim
    }
}

impl Model for Arc {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        self.t1.retain(|known| *known != page);
        self.t2.retain(|known| *known != page);
        self.t2.push(page);
    }

    fn evict(&mut self, incoming: u64, _: &Dirty) -> Vec<u64> {
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&incoming) {
            self.p = (self.p + (b2 / b1).max(1.0)).min(self.c as f64);
            return vec![self.replace(incoming)];
        }
        if self.b2.contains(&incoming) {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            return vec![self.replace(incoming)];
        }
        if self.t1.len() + self.b1.len() == self.c {
            if self.t1.len() == self.c {
                return vec![self.t1.remove(0)];
            }
            self.b1.remove(0);
        } else if self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() == 2 * self.c {
            self.b2.remove(0);
        }
        vec![self.replace(incoming)]
    }

    fn insert(&mut self, page: u64, _: bool) {
        let is_ghost = self.b1.contains(&page) || self.b2.contains(&page);
        self.b1.retain(|known| *known != page);
        self.b2.retain(|known| *known != page);
        let list = if is_ghost { &mut self.t2 } else { &mut self.t1 };
        list.push(page);
    }
}

/// Newest last; pages with their uses.
pub struct S3Fifo {
    small_max: usize,
    main_max: usize,
    small: Vec<(u64, u8)>,
    main: Vec<(u64, u8)>,
    ghosts: Vec<u64>,
}

impl S3Fifo {
    pub fn new(capacity: u32) -> S3Fifo {
        let small_max = (capacity as usize / 10).max(1);
        let main_max = capacity as usize - small_max;
        S3Fifo { small_max, main_max, small: vec![], main: vec![], ghosts: vec![] }
    }

    fn evict_main(&mut self) -> u64 {
        loop {
            match self.main.remove(0) {
                (page, 0) => return page,
                (page, uses) => self.main.push((page, uses - 1)),
            }
        }
    }
}

impl Model for S3Fifo {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        let mut all = self.small.iter_mut().chain(&mut self.main);
        let found = all.find(|(known, _)| *known == page).unwrap();
        found.1 = (found.1 + 1).min(3);
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        loop {
            if self.small.len() < self.small_max && !self.main.is_empty() {
                return vec![self.evict_main()];
            }
            let (page, uses) = self.small.remove(0);
            if uses < 2 {
                self.ghosts.push(page);
                if self.ghosts.len() > self.main_max {
                    self.ghosts.remove(0);
                }
                return vec![page];
            }
            self.main.push((page, 0));
            if self.main.len() > self.main_max {
                return vec![self.evict_main()];
            }
        }
    }

    fn insert(&mut self, page: u64, _: bool) {
        if self.ghosts.contains(&page) {
            self.ghosts.retain(|known| *known != page);
            self.main.push((page, 0));
        } else {
            self.small.push((page, 0));
        }
    }
}
