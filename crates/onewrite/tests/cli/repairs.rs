//! Images that `fsck` refuses to repair stay unchanged, and it says why.

use std::io::Write;
use std::os::unix::fs::FileExt;

use onewrite_testing::skipped;

use crate::support::Scratch;

/// The result of e2fsck's replay of an image whose fast commits hold `/after`; `None` if the file is missing then.
fn after_e2fsck(scratch: &Scratch, image: &str) -> Option<String> {
    std::fs::copy(scratch.path(image), scratch.path("replayed.img")).unwrap();
    assert_eq!(scratch.other("e2fsck", "-fy replayed.img")?.code() & !1, 0, "e2fsck repairs the copy");
    scratch.other("e2fsck", "-fn replayed.img")?.ok();
    scratch.write("requests", "stat /after\n");
    Some(scratch.other("debugfs", "-f requests replayed.img")?.out())
}

/// An image whose log holds fast commits of the kernel; `None`, with a message, if the kernel does not mount images.
fn fast_commits(scratch: &Scratch) -> Option<()> {
    scratch.other("mke2fs", "-q -F -t ext4 -b 4096 -O fast_commit a.img 64M")?.ok();
    std::fs::create_dir(scratch.path("mnt")).unwrap();
    let mounted = scratch.other("mount", "-o loop a.img mnt")?;
    if mounted.code() != 0 {
        skipped!("this machine does not mount images");
        return None;
    }
    std::fs::write(scratch.path("mnt/before"), b"before").unwrap();
    scratch.other("sync", "-f mnt")?.ok();
    let mut file = std::fs::File::create(scratch.path("mnt/after")).unwrap();
    for _ in 0..5 {
        file.write_all(&[1; 1000]).unwrap();
        file.sync_all().unwrap();
    }
    std::fs::copy(scratch.path("a.img"), scratch.path("cut.img")).unwrap();
    drop(file);
    // Between fork and exec, a child of another test may hold the file for a moment.
    scratch.other("umount", "-l mnt")?.ok();
    Some(())
}

fn is_left_alone(scratch: &Scratch, image: &str, commands: &[(&str, i32)]) {
    let before = std::fs::read(scratch.path(image)).unwrap();
    for (command, code) in commands {
        let refused = scratch.onewrite(&format!("{command} {image}"));
        let said = refused.out() + &refused.err();
        assert_eq!(refused.code(), *code, "{command}: {said}");
        assert!(said.contains("fast_commit") && said.contains("e2fsck replays it"), "{command}: {said}");
        assert!(std::fs::read(scratch.path(image)).unwrap() == before, "{command} changed the image");
    }
}

#[test]
fn a_log_of_fast_commits_is_left_to_those_who_can_replay_it() {
    let scratch = Scratch::new();
    let Some(()) = fast_commits(&scratch) else { return };
    is_left_alone(&scratch, "cut.img", &[("fsck -n", 8), ("fsck", 8), ("fsck -p", 8), ("fsck -y", 8)]);
    let Some(said) = after_e2fsck(&scratch, "cut.img") else { return };
    assert!(said.contains("Size: 5000"), "{said}");
}

#[test]
fn a_log_of_fast_commits_is_not_emptied_because_something_else_is_damaged() {
    let scratch = Scratch::new();
    let Some(()) = fast_commits(&scratch) else { return };
    // The checksum of the first descriptor: it must be corrected before any replay.
    let image = std::fs::OpenOptions::new().write(true).open(scratch.path("cut.img")).unwrap();
    image.write_all_at(&[0x55; 2], 4096 + 0x1e).unwrap();
    is_left_alone(&scratch, "cut.img", &[("fsck -y", 4), ("fsck -p", 4)]);
    let Some(said) = after_e2fsck(&scratch, "cut.img") else { return };
    assert!(said.contains("Size: 5000"), "{said}");
}

#[test]
fn an_inode_table_that_nothing_finds_is_not_guessed() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64M").ok();
    let image = std::fs::OpenOptions::new().read(true).write(true).open(scratch.path("a.img")).unwrap();
    // There is one group, so no backup. Damages the descriptor's place of the inode table, and the inodes that would
    // show it.
    let mut table = [0; 4];
    image.read_exact_at(&mut table, 4096 + 8).unwrap();
    image.write_all_at(&[0; 4096], u64::from(u32::from_le_bytes(table)) * 4096).unwrap();
    image.write_all_at(&[0xff; 4], 4096 + 8).unwrap();
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    for command in ["fsck -p a.img", "fsck -y a.img"] {
        let refused = scratch.onewrite(command);
        assert_eq!(refused.code(), 4, "{}{}", refused.out(), refused.err());
        assert!(refused.out().contains("group 0: the place of its inode table is lost"), "{}", refused.out());
        assert!(std::fs::read(scratch.path("a.img")).unwrap() == before, "{command} changed the image");
    }
}

#[test]
fn bitmaps_that_nothing_finds_get_another_place() {
    let scratch = Scratch::new();
    scratch.write("tree/a.txt", "alpha\n");
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    let image = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    image.write_all_at(&[0xff; 8], 4096).unwrap();
    assert_eq!(scratch.onewrite("fsck -p a.img").code(), 4);
    let mended = scratch.onewrite("fsck -y a.img");
    assert_eq!(mended.code(), 1, "{}{}", mended.out(), mended.err());
    assert!(mended.out().contains("the bitmap of inodes gets block"), "{}", mended.out());
    assert_eq!(scratch.onewrite("cat a.img:/a.txt").ok(), "alpha\n");
    if let Some(judged) = scratch.other("e2fsck", "-fn a.img") {
        judged.ok();
    }
}

#[test]
fn a_removal_that_was_under_way_is_finished_by_a_check_that_may_write() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("tree")).unwrap();
    std::fs::write(scratch.path("tree/gone"), [7; 9000]).unwrap();
    scratch.onewrite("mkfs a.img --size 16MiB --from tree").ok();
    let requests = "sif /gone links_count 0\nssv last_orphan 12\nunlink /gone\n";
    scratch.write("requests", requests);
    let Some(made) = scratch.other("debugfs", "-w -f requests a.img") else { return };
    made.ok();
    let damaged = scratch.other("e2fsck", "-fn a.img").map(|judged| judged.code());
    assert_eq!(damaged, Some(4), "the file has blocks and no name");
    let before = std::fs::read(scratch.path("a.img")).unwrap();

    let looked = scratch.onewrite("fsck -n a.img");
    assert!(looked.out().contains("would finish 1 removal"), "{}", looked.out());
    looked.ok();
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == before, "-n writes nothing");

    let checked = scratch.onewrite("fsck a.img");
    assert!(checked.out().contains("a.img: finished 1 removal"), "{}", checked.out());
    checked.ok();
    scratch.other("e2fsck", "-fn a.img").unwrap().ok();
    let again = scratch.onewrite("fsck a.img");
    assert!(!again.out().contains("finished"), "{}", again.out());
}
