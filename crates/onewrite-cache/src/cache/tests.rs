//! The page cache under LRU, in small cases by hand.

use super::*;
use crate::policy::Lru;

fn key(index: u64) -> PageKey {
    PageKey { file: 1, index }
}

fn cache(capacity: usize) -> PageCache {
    PageCache::new(capacity, Box::new(Lru::new(capacity as u32)))
}

fn filled(capacity: usize) -> PageCache {
    let mut cache = cache(capacity);
    (0..capacity as u64).for_each(|index| cache.insert(key(index), Page::ZEROS));
    cache
}

/// Makes room as a file system does; returns the pages that it wrote.
fn made_room(cache: &mut PageCache) -> Vec<u64> {
    let mut written = Vec::new();
    while let Room::Write(victims) = cache.make_room() {
        for key in victims {
            cache.begin_write(key);
            cache.end_write(key);
            written.push(key.index);
        }
    }
    written
}

#[test]
fn the_oldest_clean_page_makes_room() {
    let mut cache = filled(3);
    cache.page(key(0));
    assert_eq!(cache.make_room(), Room::Made);
    assert!(cache.peek(key(1)).is_none() && cache.peek(key(0)).is_some());
}

#[test]
fn a_dirty_victim_is_written_and_leaves() {
    let mut cache = filled(2);
    cache.mark_dirty(key(0));
    assert_eq!(cache.make_room(), Room::Write(vec![key(0)]));
    cache.begin_write(key(0));
    cache.check().unwrap();
    assert_eq!(cache.make_room(), Room::Made, "the room of a page that is being written is promised");
    cache.end_write(key(0));
    assert!(cache.peek(key(0)).is_none() && cache.len() == 1);
    cache.check().unwrap();
}

#[test]
fn dirty_victims_leave_in_the_order_of_the_policy() {
    let mut cache = filled(4);
    [3, 1, 0, 2].into_iter().for_each(|index| drop(cache.page(key(index)).cloned()));
    [0, 1, 3].into_iter().for_each(|index| cache.mark_dirty(key(index)));
    assert_eq!(made_room(&mut cache), [3]);
    cache.insert(key(9), Page::ZEROS);
    assert_eq!(made_room(&mut cache), [1]);
    cache.check().unwrap();
}

#[test]
fn coming_in_and_being_used_is_one_access() {
    let shape = crate::CacheShape::new(10, 1).unwrap();
    let mut cache = PageCache::new(10, crate::PolicyKind::Arc.policy(shape).unwrap());
    for index in 0..10 {
        cache.insert(key(index), Page::ZEROS);
        cache.page(key(index));
    }
    cache.page(key(0));
    (10..19).for_each(|index| {
        assert_eq!(cache.make_room(), Room::Made);
        cache.insert(key(index), Page::ZEROS);
        cache.page(key(index));
    });
    assert!(cache.peek(key(0)).is_some(), "only page 0 was used again, so the others left before it");
    assert!(cache.peek(key(1)).is_none());
}

#[test]
fn a_page_read_ahead_comes_in_when_it_is_used() {
    let mut cache = filled(3);
    cache.page(key(0));
    assert_eq!(cache.make_room(), Room::Made);
    assert!(cache.peek(key(0)).is_some() && cache.peek(key(1)).is_none());
}

#[test]
fn what_was_written_out_keeps_its_age() {
    let mut cache = filled(2);
    cache.mark_dirty(key(0));
    cache.begin_write(key(0));
    cache.end_write(key(0));
    assert_eq!(cache.make_room(), Room::Made);
    assert!(cache.peek(key(0)).is_none(), "it is older than page 1");
}

#[test]
fn a_victim_that_is_used_again_stays() {
    for begins in [false, true] {
        let mut cache = filled(2);
        cache.mark_dirty(key(0));
        assert_eq!(cache.make_room(), Room::Write(vec![key(0)]));
        if begins {
            cache.begin_write(key(0));
        }
        cache.page(key(0));
        if begins {
            cache.end_write(key(0));
        }
        assert!(!cache.is_leaving(key(0)) && cache.len() == 2, "{begins}");
        assert_eq!(cache.make_room(), Room::Made);
        assert!(cache.peek(key(1)).is_none(), "page 0 is younger now");
        cache.check().unwrap();
    }
}

#[test]
fn a_victim_whose_write_fails_stays_dirty() {
    let mut cache = filled(1);
    cache.mark_dirty(key(0));
    cache.make_room();
    cache.begin_write(key(0));
    cache.mark_dirty(key(0));
    cache.end_write(key(0));
    assert!(cache.is_dirty(key(0)));
    assert_eq!(cache.make_room(), Room::Stuck);
    cache.check().unwrap();
}

#[test]
fn a_page_changed_while_it_is_written_stays_dirty() {
    let mut cache = filled(1);
    cache.mark_dirty(key(0));
    let frozen = cache.begin_write(key(0));
    cache.page_mut(key(0)).unwrap().write(0, b"x");
    cache.mark_dirty(key(0));
    cache.end_write(key(0));
    assert_eq!(frozen, Page::ZEROS);
    assert_eq!(cache.make_room(), Room::Write(vec![key(0)]));
    cache.check().unwrap();
}

#[test]
fn pinned_pages_stay_until_both_transactions_end() {
    let mut cache = filled(1);
    cache.pin(key(0), 7);
    cache.pin(key(0), 8);
    cache.unpin(key(0), 7);
    assert_eq!(cache.make_room(), Room::Stuck);
    cache.unpin(key(0), 8);
    assert_eq!(cache.make_room(), Room::Made);
    cache.check().unwrap();
}

#[test]
fn a_page_that_was_pinned_keeps_its_age() {
    let mut cache = filled(2);
    cache.pin(key(0), 7);
    cache.unpin(key(0), 7);
    assert_eq!(cache.make_room(), Room::Made);
    assert!(cache.peek(key(0)).is_none(), "it is older than page 1");
}

#[test]
fn only_clean_pages_are_dropped_on_request() {
    let mut cache = filled(3);
    cache.mark_dirty(key(0));
    cache.pin(key(1), 7);
    cache.drop_clean(1);
    assert_eq!((cache.len(), cache.peek(key(2))), (2, None));
    cache.check().unwrap();
}

#[test]
fn dropping_a_file_drops_its_pages_only() {
    let mut cache = filled(4);
    cache.insert(PageKey { file: 2, index: 3 }, Page::ZEROS);
    cache.remove_file(1, 1, u64::MAX);
    assert_eq!(cache.len(), 2);
    cache.check().unwrap();
}
