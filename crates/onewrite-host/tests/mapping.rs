//! Mappings of atomic files: what was stored becomes durable together at an msync, or not at all.

mod support;

use std::ffi::OsStr;
use std::path::Path;

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Draft, Mapping, Volume};
use onewrite_testing::{killed_after, tell_committed};
use support::{ScratchImage, content, number};

/// A new file, claimed and mapped.
fn mapped(volume: &Volume, draft: &Draft, path: &str, content: &[u8]) -> Mapping {
    volume.create(path).unwrap().append(content).unwrap();
    draft.claim(path).unwrap().map().unwrap()
}

#[test]
fn stores_are_private_until_an_msync_makes_them_durable_together() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::DataAsync);
    let draft = volume.atomic().unwrap();
    let mut one = mapped(&volume, &draft, "/one", &[b'o'; 10_000]);
    let mut two = mapped(&volume, &draft, "/two", b"two");
    let three = draft.create("/three").unwrap();
    one[9_998..].copy_from_slice(b"ab");
    one[3] = b'x';
    two[0] = b'T';
    three.append(b"3").unwrap();
    assert_eq!((content(&volume, "/one"), content(&volume, "/two")), (vec![b'o'; 10_000], b"two".to_vec()));
    draft.msync(&mut [&mut one, &mut two]).unwrap();
    assert_eq!((content(&volume, "/one"), content(&volume, "/two")), (one.to_vec(), b"Two".to_vec()));
    assert_eq!((content(&volume, "/three"), one[3], &one[9_997..]), (b"3".to_vec(), b'x', &b"oab"[..]));
    let durable = one.to_vec();
    one[5_000] = b'z';
    two[1] = b'W';
    draft.msync(&mut [&mut two]).unwrap();
    drop((one, two, draft));
    volume.close().unwrap();
    place.check();
    let volume = place.volume(Mode::DataAsync);
    assert_eq!((content(&volume, "/one"), content(&volume, "/two")), (durable, b"TWo".to_vec()));
}

/// The first msync brings the times; within a tick of the clock the second writes the page, and two blocks of the log.
#[test]
fn pages_that_are_as_before_are_not_written() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::DataAsync);
    let draft = volume.atomic().unwrap();
    let mut map = mapped(&volume, &draft, "/map", &vec![7; 1 << 20]);
    volume.sync().unwrap();
    let written = || volume.device_counters().unwrap().host_write_bytes();
    for pages in [1, 2, 5] {
        map.iter_mut().step_by(100 * 1024).take(pages).for_each(|byte| *byte += 1);
        let before = written();
        draft.msync(&mut [&mut map]).unwrap();
        let blocks = (written() - before) / 4096;
        assert!((pages as u64 + 2..=pages as u64 + 6).contains(&blocks), "{pages} pages: {blocks} blocks");
    }
    let before = written();
    draft.msync(&mut [&mut map]).unwrap();
    draft.msync(&mut []).unwrap();
    assert_eq!(written(), before, "nothing has changed");
}

/// Half of the first mapping fits; the refusal comes while its pages are put into the draft, or those of the second.
#[test]
fn an_msync_that_does_not_fit_changes_nothing_and_can_be_made_smaller() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::DataAsync);
    let draft = volume.atomic().unwrap();
    let old = vec![1; 24 << 20];
    let (mut small, mut large) = (mapped(&volume, &draft, "/small", b"old"), mapped(&volume, &draft, "/large", &old));
    // Less is left than the large one has; where the limit of memory is reached, pages go to the disk.
    let filler = volume.create("/filler").unwrap();
    filler.write_at(0, &vec![0; 20 << 20]).unwrap();
    volume.sync().unwrap();
    small.copy_from_slice(b"new");
    large.fill(2);
    assert_eq!(number(draft.msync(&mut [&mut small, &mut large])), 28, "ENOSPC");
    assert_eq!((&small[..], large[0], large[(24 << 20) - 1]), (&b"new"[..], 2, 2), "the stores stay");
    assert!(content(&volume, "/small") == b"old" && content(&volume, "/large") == old);
    assert!(!draft.is_changed().unwrap(), "nothing is left in the draft");
    // Other pages than those that were put before, and as many as fit.
    large[..22 << 20].fill(1);
    large[22 << 20..(22 << 20) + (200 << 12)].fill(3);
    large[(22 << 20) + (200 << 12)..].fill(1);
    draft.msync(&mut [&mut small, &mut large]).unwrap();
    assert!(content(&volume, "/small") == b"new" && content(&volume, "/large") == large[..]);
    let other = draft.create("/other").unwrap();
    other.append(b"other").unwrap();
    (small[0], large[0]) = (b'N', 9);
    large[1 << 20..].fill(9);
    assert_eq!(number(draft.msync(&mut [&mut small, &mut large])), 28, "ENOSPC");
    draft.commit().unwrap();
    assert_eq!((content(&volume, "/small"), content(&volume, "/other")), (b"new".to_vec(), b"other".to_vec()));
    let large_now = content(&volume, "/large");
    let kept = |at: usize| if (22 << 20..(22 << 20) + (200 << 12)).contains(&at) { 3 } else { 1 };
    assert!(large_now.iter().enumerate().all(|(at, byte)| *byte == kept(at)), "the pages of the refused msync");
    drop((small, large, draft));
    volume.close().unwrap();
    place.check();
}

/// Longer than what is read at once.
#[test]
fn a_large_file_is_mapped_as_it_is() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::DataAsync);
    let draft = volume.atomic().unwrap();
    let content: Vec<u8> =
        (0..3_500_000_u32).flat_map(|number| (number as u8 ^ (number >> 13) as u8).to_le_bytes()).collect();
    let map = mapped(&volume, &draft, "/map", &content);
    assert!(map[..] == content[..]);
}

#[test]
fn what_cannot_be_mapped_or_committed_is_refused() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::DataAsync);
    let (draft, other) = (volume.atomic().unwrap(), volume.atomic().unwrap());
    let mut map = mapped(&volume, &draft, "/map", b"content");
    map[0] = b'C';
    assert_eq!(number(other.msync(&mut [&mut map])), 22);
    assert_eq!(content(&volume, "/map"), b"content");
    let sparse = draft.create("/sparse").unwrap();
    volume.create("/large").unwrap().set_size(8 << 40).unwrap_or_else(|error| panic!("{error}"));
    let refused = draft.claim("/large").unwrap().map().map(drop).unwrap_err();
    assert!(refused.to_string().contains("write_at"), "{refused}");
    let mut empty = sparse.map().unwrap();
    assert!(empty.is_empty());
    draft.msync(&mut [&mut empty]).unwrap();
    drop(draft);
    assert_eq!(number(other.claim("/map").unwrap().map().map(drop).and(other.msync(&mut [&mut map]))), 22);
}

/// Names the image to the process that [`mappings_agree_after_kills`] starts.
const IMAGE: &str = "ONEWRITE_MAPPINGS_ON";
/// Bytes of each mapping.
const SIZE: usize = 64 * 1024;

/// Not a test of its own: [`mappings_agree_after_kills`] starts it in a process and kills that.
#[test]
fn stores_until_it_is_killed() {
    let Some(image) = std::env::var_os(IMAGE) else { return };
    let volume = Volume::open(Path::new(&image), MountOptions::new(Mode::DataAsync)).unwrap();
    let draft = volume.atomic().unwrap();
    let [mut one, mut two] = ["/one", "/two"].map(|path| draft.claim(path).unwrap().map().unwrap());
    for count in u64::from(one[0]) + 1.. {
        // Each page of both is full of the count.
        one.fill(count as u8);
        two.fill(count as u8);
        draft.msync(&mut [&mut one, &mut two]).unwrap();
        tell_committed(count);
    }
}

#[test]
fn mappings_agree_after_kills() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::DataAsync);
    for path in ["/one", "/two"] {
        volume.create(path).unwrap().append(&[0; SIZE]).unwrap();
    }
    volume.close().unwrap();
    for round in 1..=6 {
        let variables: [(&str, &OsStr); 1] = [(IMAGE, place.0.as_os_str())];
        let told = killed_after("stores_until_it_is_killed", &variables, round * 25);
        assert!(told >= round * 25, "the process ended after {told}");
        let volume = place.volume(Mode::DataAsync);
        let (one, two) = (content(&volume, "/one"), content(&volume, "/two"));
        assert!(one == two && one.iter().all(|byte| *byte == one[0]), "round {round}: torn");
        assert!(u64::from(one[0]) >= told, "round {round}: {} of {told}", one[0]);
        volume.close().unwrap();
        place.check();
    }
}
