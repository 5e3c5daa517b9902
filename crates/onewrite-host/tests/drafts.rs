//! Drafts of a volume: changes of several files, whole or not at all.

mod support;

use std::path::Path;

use onewrite_fs::ext4::Mode;
use onewrite_host::SharedRange;
use onewrite_testing::{killed_after, tell_committed};
use support::{ScratchImage, content, number};

#[path = "../examples/atomic_transfer.rs"]
mod atomic_transfer;

#[test]
fn a_draft_is_private_until_its_commit_and_usable_after_it() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::Data);
    volume.create("/one").unwrap().append(b"one").unwrap();
    volume.symlink("/link", "one").unwrap();
    let draft = volume.atomic().unwrap();
    let (one, two) = (draft.claim("/link").unwrap(), draft.create("/two").unwrap());
    assert_eq!(one.append(b" and more").unwrap(), 3);
    two.write_at(5_000, b"end").unwrap();
    two.punch(0, 5_001).unwrap();
    one.set_size(7).unwrap();
    assert_eq!((one.read_at(0, 99).unwrap(), two.size().unwrap()), (b"one and".to_vec(), 5_003));
    assert_eq!((content(&volume, "/one"), number(volume.open_file("/two"))), (b"one".to_vec(), 2));
    draft.commit().unwrap();
    assert_eq!(content(&volume, "/one"), b"one and");
    assert_eq!(content(&volume, "/two"), [vec![0; 5_001], b"nd".to_vec()].concat());
    draft.rename("/two", "/three").unwrap();
    draft.remove("/link").unwrap();
    one.write_at(0, b"O").unwrap();
    draft.commit().unwrap();
    assert_eq!((content(&volume, "/one"), content(&volume, "/three").len()), (b"One and".to_vec(), 5_003));
    assert_eq!((number(volume.metadata("/two")), number(volume.metadata("/link"))), (2, 2));
    drop(draft);
    volume.close().unwrap();
    place.check();
}

#[test]
fn what_is_aborted_or_dropped_nobody_sees() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::DataAsync);
    volume.create("/one").unwrap().append(b"one").unwrap();
    let draft = volume.atomic().unwrap();
    let (one, made) = (draft.claim("/one").unwrap(), draft.create("/made").unwrap());
    one.write_at(0, b"changed").unwrap();
    draft.abort().unwrap();
    assert_eq!((one.read_at(0, 99).unwrap(), number(made.size())), (b"one".to_vec(), 22));
    one.write_at(0, b"again").unwrap();
    draft.remove("/one").unwrap();
    drop(draft);
    assert_eq!((content(&volume, "/one"), number(one.read_at(0, 99))), (b"one".to_vec(), 2));
    volume.open_file("/one").unwrap().write_at(0, b"two").unwrap();
    assert_eq!(volume.read_directory("/").unwrap().len(), 2, "lost+found and one");
    volume.close().unwrap();
    place.check();
}

#[test]
fn a_file_has_one_draft_and_drafts_are_committed_together() {
    let (place, elsewhere) = (ScratchImage::new(), ScratchImage::new());
    let (volume, other) = (place.volume(Mode::Data), elsewhere.volume(Mode::Data));
    let file = volume.create("/one").unwrap();
    let (first, second) = (volume.atomic().unwrap(), volume.atomic().unwrap());
    let (one, two) = (first.claim("/one").unwrap(), second.create("/two").unwrap());
    assert_eq!((number(second.claim("/one")), number(file.append(b"x")), number(file.set_size(1))), (16, 16, 16));
    assert_eq!((number(first.claim("/two")), number(first.claim("/"))), (2, 21));
    one.append(b"1").unwrap();
    two.append(b"2").unwrap();
    let stranger = other.atomic().unwrap();
    assert_eq!(number(volume.commit_together(&[&first, &stranger])), 22);
    assert_eq!(number(volume.commit_together(&[&first, &first])), 22);
    assert_eq!(content(&volume, "/one"), b"");
    volume.commit_together(&[&first, &second]).unwrap();
    assert_eq!((content(&volume, "/one"), content(&volume, "/two")), (b"1".to_vec(), b"2".to_vec()));
}

/// ext4 keeps such a target whole, and every program sees a part of it.
#[test]
fn a_link_target_with_a_zero_byte_is_refused() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::Data);
    assert_eq!(number(volume.symlink("/link", "a\0b")), 22);
    volume.close().unwrap();
    place.check();
}

#[test]
fn modes_that_write_content_in_place_refuse_and_name_others() {
    let place = ScratchImage::new();
    let refused = place.volume(Mode::Ordered).atomic().map(drop).unwrap_err();
    assert!(refused.errno() == 95 && refused.to_string().contains("mount with data"), "{refused}");
}

#[test]
fn the_example_moves_coins_and_loses_none() {
    let place = ScratchImage::new();
    let coins = atomic_transfer::COINS;
    assert_eq!(atomic_transfer::run(&place.0, 10, |_| ()).unwrap(), (coins - 10, 10));
    assert_eq!(atomic_transfer::run(&place.0, 600, |_| ()).unwrap(), (coins / 2, coins / 2));
    place.check();
}

/// Names the image to the process that [`coins_survive_kills`] starts.
const IMAGE: &str = "ONEWRITE_TRANSFERS_ON";

/// Not a test of its own: [`coins_survive_kills`] starts it in a process and kills that.
#[test]
fn transfers_until_it_is_killed() {
    let Some(image) = std::env::var_os(IMAGE) else { return };
    atomic_transfer::run(Path::new(&image), u64::MAX, tell_committed).unwrap();
}

#[test]
fn coins_survive_kills() {
    let place = ScratchImage::new();
    for round in 1..=5 {
        let durable = killed_after("transfers_until_it_is_killed", &[(IMAGE, place.0.as_os_str())], round * 30);
        assert!(durable >= round * 30, "transfers before the kill: {durable}");
        let (alice, bob) = atomic_transfer::run(&place.0, 0, |_| ()).unwrap();
        assert_eq!(alice + bob, atomic_transfer::COINS, "round {round}");
        place.check();
    }
}

/// Without SHARE the pages go through the log, whole or not at all.
#[test]
fn pages_of_one_file_become_those_of_another() {
    let place = ScratchImage::new();
    let volume = place.volume(Mode::DataAsync);
    let (area, table) = (volume.create("/area").unwrap(), volume.create("/table").unwrap());
    area.append(&[[1; 4096], [2; 4096]].concat()).unwrap();
    table.append(&[9; 16_384]).unwrap();
    let range = |source_offset, target_offset| SharedRange {
        source: &area,
        source_offset,
        target: &table,
        target_offset,
        length: 4096,
    };
    volume.share(&[range(4096, 0), range(0, 12_288)]).unwrap();
    let expected = [[2; 4096], [9; 4096], [9; 4096], [1; 4096]].concat();
    assert_eq!(content(&volume, "/table"), expected);
    assert_eq!(number(volume.share(&[range(100, 0)])), 22);
    let draft = volume.atomic().unwrap();
    draft.claim("/table").unwrap();
    assert_eq!(number(volume.share(&[range(0, 0)])), 16);
    drop(draft);
    let elsewhere = ScratchImage::new();
    let other = elsewhere.volume(Mode::DataAsync);
    assert_eq!(number(other.share(&[range(0, 0)])), 22);
    drop((area, table));
    volume.close().unwrap();
    place.check();
    let volume = place.volume(Mode::Ordered);
    assert_eq!(content(&volume, "/table"), expected);
    let table = volume.open_file("/table").unwrap();
    let range = SharedRange { source: &table, source_offset: 0, target: &table, target_offset: 4096, length: 4096 };
    assert_eq!(number(volume.share(&[range])), 95, "neither SHARE nor a log with content");
}
