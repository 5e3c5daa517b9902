//! Makes, fills, reads and checks images. e2fsck and the kernel judge them if they are available.

use std::os::unix::fs::FileExt;
use std::rc::Rc;

use onewrite_block::{Executor, HostProfile, Nanos, Time};
use onewrite_device::FileDisk;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, Manner, NewNode, Position};
use onewrite_testing::skipped;

use crate::support::Scratch;

/// A directory tree with most kinds of entries.
fn tree(scratch: &Scratch) {
    scratch.write("tree/a.txt", "alpha\n");
    scratch.write("tree/empty", "");
    scratch.write("tree/deep/er/b.bin", vec![7; 300_000]);
    scratch.write("tree/name with blanks", "x");
    std::os::unix::fs::symlink("../a.txt", scratch.path("tree/deep/link")).unwrap();
    std::fs::hard_link(scratch.path("tree/a.txt"), scratch.path("tree/deep/same")).unwrap();
}

fn e2fsck_is_content(scratch: &Scratch, image: &str) {
    if let Some(judged) = scratch.other("e2fsck", &format!("-fn {image}")) {
        judged.ok();
    }
}

#[test]
fn a_new_image_is_clean() {
    let scratch = Scratch::new();
    let said = scratch.onewrite("mkfs a.img --size 64M --label test").ok();
    assert!(said.contains("ext4 of 64 MiB with a journal of 4 MiB"), "{said}");
    assert!(scratch.onewrite("fsck -n a.img").ok().contains("clean"));
    e2fsck_is_content(&scratch, "a.img");
}

#[test]
fn what_holds_something_is_not_formatted_without_force() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64M").ok();
    let refusal = scratch.onewrite("mkfs a.img").fails_with(2);
    assert!(refusal.contains("a.img") && refusal.contains("ext4") && refusal.contains("--force"), "{refusal}");
    scratch.onewrite("mkfs a.img --force").ok();
    scratch.write("b.img", vec![1; 64 << 20]);
    assert!(scratch.onewrite("mkfs b.img").fails_with(2).contains("data of an unknown kind"));
}

#[test]
fn an_image_that_cannot_be_made_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let refusal = scratch.onewrite("mkfs a.img --size 16k").fails_with(2);
    assert!(refusal.contains("too few"), "{refusal}");
    for (arguments, words) in [
        ("mkfs a.img --size 0", "at least one page of 4096 bytes"),
        ("mkfs a.img --size 4MiB", "at least 8 MiB"),
        ("mkfs a.img --size 64MiB --journal-size 0", "--journal-size 4MiB"),
        ("mkfs a.img --size 64MiB --journal-size 1GiB", "a smaller journal"),
        ("run varmail --device ./a.img --size 0", "at least one page of 4096 bytes"),
    ] {
        let refusal = scratch.onewrite(arguments).fails_with(2);
        assert_eq!(refusal.matches(words).count(), 1, "said once: {arguments}: {refusal}");
        assert!(!scratch.path("a.img").exists(), "{arguments}");
    }
}

#[test]
fn one_seed_makes_one_image() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64M --seed 5").ok();
    scratch.onewrite("mkfs b.img --size 64M --seed 5").ok();
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == std::fs::read(scratch.path("b.img")).unwrap());
}

#[test]
fn a_tree_goes_in_and_comes_out_again() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    e2fsck_is_content(&scratch, "a.img");
    scratch.onewrite("cp a.img:/ out").ok();
    scratch.other("diff", "-r --no-dereference --exclude=lost+found tree out").unwrap().ok();
    assert_eq!(std::fs::read_link(scratch.path("out/deep/link")).unwrap().to_str(), Some("../a.txt"));
}

#[test]
fn looks_show_what_is_there_and_change_nothing() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    assert_eq!(scratch.onewrite("ls a.img").ok(), "a.txt\ndeep\nempty\nlost+found\nname with blanks\n");
    assert_eq!(scratch.onewrite("cat a.img:/deep/same").ok(), "alpha\n");
    assert_eq!(
        scratch.onewrite("tree a.img:/deep").ok(),
        "/deep\n├── er\n│   └── b.bin\n├── link -> ../a.txt\n└── same\n"
    );
    assert!(scratch.onewrite("ls -l a.img:/deep/er").ok().contains("      300000 "));
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == before);
}

#[test]
fn copies_go_into_directories_that_exist() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64M").ok();
    scratch.onewrite("cp tree a.img:/").ok();
    scratch.onewrite("cp tree/a.txt tree/empty a.img:/tree/deep").ok();
    scratch.onewrite("cp tree/a.txt a.img:/renamed").ok();
    assert_eq!(scratch.onewrite("cat a.img:/tree/deep/a.txt").ok(), "alpha\n");
    assert_eq!(scratch.onewrite("cat a.img:/renamed").ok(), "alpha\n");
    e2fsck_is_content(&scratch, "a.img");
}

#[test]
fn places_that_are_not_there_are_named() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64M").ok();
    assert!(scratch.onewrite("cat a.img:/nope").fails_with(2).contains("nope"));
    assert!(scratch.onewrite("ls b.img").fails_with(2).contains("b.img: no such image"));
    assert!(scratch.onewrite("cp x y").fails_with(2).contains("IMAGE:/PATH"));
}

/// An image whose log holds a synced file that is not yet written home.
fn unclean(scratch: &Scratch) {
    scratch.onewrite("mkfs a.img --size 64M").ok();
    let executor = Executor::new(Time::Wall { civil_start: Nanos::ZERO }, HostProfile::default());
    let disk = FileDisk::open(scratch.path("a.img")).unwrap();
    let port = executor.runtime().attach(Box::new(disk));
    let written = executor.block_on(async move {
        let fs = Rc::new(Ext4::mount(port, MountOptions::new(Mode::Data)).await?);
        let ino = fs.create(fs.root(), b"kept", NewNode::FILE).await?;
        fs.write(ino, Position::At(0), Content::Bytes(b"content"), Manner::default()).await?;
        fs.fsync(ino).await
    });
    written.unwrap().unwrap();
}

#[test]
fn fsck_replays_the_log_and_with_n_only_in_memory() {
    let scratch = Scratch::new();
    unclean(&scratch);
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    assert!(scratch.onewrite("fsck -n a.img").ok().contains("log replayed in memory"));
    let looked = scratch.onewrite("cat a.img:/kept");
    assert_eq!(looked.ok(), "content");
    let told = looked.err();
    assert!(told.starts_with("a.img: log replayed in memory: ") && told.contains(" transactions, "), "{told}");
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == before);
    let told: serde_json::Value = serde_json::from_str(&scratch.onewrite("fsck -n --json - a.img").ok()).unwrap();
    let recovered = |key: &str| told["recovered"][key].as_u64().unwrap();
    assert!(told["clean"] == true && recovered("transactions") > 0 && recovered("nanoseconds") > 0, "{told}");
    assert_eq!(recovered("written_bytes"), recovered("written_blocks") * 4096);
    assert!(scratch.onewrite("fsck a.img").ok().contains("log replayed: "));
    assert!(!scratch.onewrite("fsck a.img").ok().contains("replayed"));
    e2fsck_is_content(&scratch, "a.img");
}

#[test]
fn fsck_ends_with_four_on_errors_and_says_where() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64M").ok();
    let image = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    image.write_all_at(&[0xff; 64], 4096).unwrap();
    let judged = scratch.onewrite("fsck -n a.img");
    assert_eq!(judged.code(), 4, "{}{}", judged.out(), judged.err());
    assert!(judged.out().contains("group"), "{}", judged.out());
    scratch.onewrite("fsck -n nowhere.img").fails_with(8);
    scratch.onewrite("fsck -x a.img").fails_with(16);
    scratch.onewrite("fsck a.img b.img").fails_with(16);
    scratch.onewrite("fsck").fails_with(16);
    assert_eq!(scratch.onewrite("fsck --help").code(), 0);
    scratch.onewrite("ls").fails_with(2);
}

#[test]
fn fsck_repairs_what_it_may_and_says_what_it_did() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    // The first descriptor's count of directories: correcting it loses nothing.
    let image = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    image.write_all_at(&[0x77], 4096 + 0x10).unwrap();
    let mended = scratch.onewrite("fsck -p a.img");
    assert_eq!(mended.code(), 1, "{}{}", mended.out(), mended.err());
    assert!(mended.out().contains("repaired: group 0"), "{}", mended.out());
    e2fsck_is_content(&scratch, "a.img");
    assert_eq!(scratch.onewrite("fsck -p a.img").code(), 0);
    // The root directory's inode is in the second slot of the first inode table; without it there is no tree.
    scratch.write("requests", "clri <2>\n");
    let Some(hurt) = scratch.other("debugfs", "-w -f requests a.img") else { return };
    hurt.ok();
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    let refused = scratch.onewrite("fsck -p a.img");
    assert_eq!(refused.code(), 4, "{}{}", refused.out(), refused.err());
    assert!(refused.out().contains("run with -y"), "{}", refused.out());
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == before, "nothing was written");
    let told = scratch.onewrite("fsck -y --json - a.img");
    assert_eq!(told.code(), 1, "{}{}", told.out(), told.err());
    let told: serde_json::Value = serde_json::from_str(&told.out()).unwrap();
    assert!(told["clean"] == true && !told["repaired"].as_array().unwrap().is_empty(), "{told}");
    e2fsck_is_content(&scratch, "a.img");
    assert!(scratch.onewrite("tree a.img:/lost+found").ok().contains('#'));
    scratch.onewrite("fsck -n -y a.img").fails_with(16);
}

#[test]
fn the_kernel_reads_what_was_copied_in_and_is_read_back() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    std::fs::create_dir(scratch.path("mnt")).unwrap();
    let mounted = scratch.other("mount", "-o loop a.img mnt");
    if mounted.is_none_or(|mounted| mounted.code() != 0) {
        skipped!("this machine does not mount images");
        return;
    }
    let compared = scratch.other("diff", "-r --no-dereference --exclude=lost+found tree mnt");
    std::fs::write(scratch.path("mnt/by-the-kernel"), "hello\n").unwrap();
    scratch.other("umount", "mnt").unwrap().ok();
    compared.unwrap().ok();
    assert_eq!(scratch.onewrite("cat a.img:/by-the-kernel").ok(), "hello\n");
    assert_eq!(scratch.onewrite("fsck a.img").code(), 0);
}

/// Zeros a block of 4 KiB.
fn zero(scratch: &Scratch, image: &str, block: u64) {
    let image = std::fs::OpenOptions::new().write(true).open(scratch.path(image)).unwrap();
    image.write_all_at(&[0; 4096], block * 4096).unwrap();
}

fn debugfs(scratch: &Scratch, request: &str, image: &str) -> Option<()> {
    scratch.write("requests", format!("{request}\n"));
    scratch.other("debugfs", &format!("-w -f requests {image}")).map(|done| drop(done.ok()))
}

/// Repairs the image; then e2fsck finds nothing, and the tree is complete.
fn is_made_whole(scratch: &Scratch, image: &str) -> String {
    let looked = scratch.onewrite(&format!("fsck -n {image}"));
    assert_eq!(looked.code(), 4, "{}{}", looked.out(), looked.err());
    assert!(looked.out().contains("`onewrite fsck -y` repairs it"), "{}", looked.out());
    let mended = scratch.onewrite(&format!("fsck -y {image}"));
    assert_eq!(mended.code(), 1, "{}{}", mended.out(), mended.err());
    e2fsck_is_content(scratch, image);
    scratch.onewrite(&format!("cp {image}:/ out")).ok();
    scratch.other("diff", "-r --no-dereference --exclude=lost+found tree out").unwrap().ok();
    std::fs::remove_dir_all(scratch.path("out")).unwrap();
    mended.out()
}

#[test]
fn the_only_descriptor_is_found_again_by_its_inodes() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64MiB --from tree").ok();
    zero(&scratch, "a.img", 1);
    let told = is_made_whole(&scratch, "a.img");
    assert!(told.contains("its inode table is found in block"), "{told}");
    let Some(made) = scratch.other("mke2fs", "-q -F -t ext4 -b 4096 -d tree b.img 64M") else { return };
    made.ok();
    zero(&scratch, "b.img", 1);
    is_made_whole(&scratch, "b.img");
}

#[test]
fn no_backup_is_named_that_is_not_there() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64MiB").ok();
    zero(&scratch, "a.img", 1);
    // Nothing is left that shows where the inodes were.
    for block in 2..1200 {
        zero(&scratch, "a.img", block);
    }
    for command in ["fsck -n a.img", "fsck -y a.img"] {
        let judged = scratch.onewrite(command);
        assert_eq!(judged.code(), 4, "{}{}", judged.out(), judged.err());
        assert!(!judged.out().contains("32768") && judged.out().contains("copy"), "{}", judged.out());
    }
}

#[test]
fn backups_that_are_there_are_used() {
    let scratch = Scratch::new();
    tree(&scratch);
    for (block, told) in [(0, "restored from its backup in block 32768"), (1, "are those of a backup")] {
        scratch.onewrite("mkfs a.img --size 256MiB --from tree --force").ok();
        zero(&scratch, "a.img", block);
        let said = is_made_whole(&scratch, "a.img");
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn a_journal_that_is_gone_is_made_anew() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64MiB --from tree").ok();
    let Some(()) = debugfs(&scratch, "clri <8>", "a.img") else { return };
    assert!(scratch.onewrite("fsck -n a.img").out().contains("inode 8: the journal is empty"));
    assert!(scratch.onewrite("ls a.img").fails_with(2).contains("journal's inode: is empty; run `onewrite fsck`"));
    let told = is_made_whole(&scratch, "a.img");
    assert!(told.contains("a journal of 1024 blocks is made"), "{told}");
    scratch.write("more", "more\n");
    scratch.onewrite("cp more a.img:/").ok();
    e2fsck_is_content(&scratch, "a.img");
}

#[test]
fn fsck_says_of_sound_images_that_it_cannot_check_them() {
    for arguments in [
        "-t ext4 -b 1024",
        "-t ext2 -b 2048",
        "-t ext4 -b 4096 -O inline_data",
        "-t ext4 -b 4096 -O bigalloc",
        "-t ext4 -b 4096 -O quota",
        "-t ext4 -b 4096 -O encrypt",
        "-t ext3 -b 4096",
    ] {
        let scratch = Scratch::new();
        let Some(made) = scratch.other("mke2fs", &format!("-q -F {arguments} a.img 64M")) else { return };
        made.ok();
        for command in ["fsck -n", "fsck", "fsck -p", "fsck -y"] {
            let said = scratch.onewrite(&format!("{command} a.img")).fails_with(8);
            assert!(said.contains("cannot check it") && said.contains("e2fsck can check it"), "{arguments}: {said}");
            assert!(!said.contains("writing") && !said.contains("make the image"), "{arguments}: {said}");
        }
        scratch.onewrite("ls a.img").ok();
    }
}

#[test]
fn an_image_without_a_journal_is_checked() {
    let scratch = Scratch::new();
    let Some(made) = scratch.other("mke2fs", "-q -F -t ext4 -b 4096 -O ^has_journal a.img 64M") else { return };
    made.ok();
    assert!(scratch.onewrite("fsck -n a.img").ok().contains("clean"));
    assert!(scratch.onewrite("fsck -y a.img").ok().contains("clean"));
}

#[test]
fn what_never_was_ext4_is_not_called_damaged() {
    let scratch = Scratch::new();
    scratch.write("zeros.img", vec![0; 8 << 20]);
    scratch.write(
        "other.img",
        (0..8_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>(),
    );
    for image in ["zeros.img", "other.img"] {
        for (command, code) in [("tree", 2), ("ls --rescue", 2), ("fsck -n", 8), ("fsck", 8), ("fsck -y", 8)] {
            let said = scratch.onewrite(&format!("{command} {image}")).fails_with(code);
            assert!(said.contains("holds no ext2, ext3, ext4 or F2FS file system"), "{command}: {said}");
            assert!(!said.contains("damaged") && !said.contains("repair"), "{command}: {said}");
        }
    }
}

#[test]
fn fsck_names_the_cure_that_suffices() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64MiB --from tree").ok();
    let Some(()) = debugfs(&scratch, "sif /a.txt links_count 7", "a.img") else { return };
    let judged = scratch.onewrite("fsck -n a.img");
    assert!(judged.out().contains("1 error; `onewrite fsck -p` repairs it"), "{}", judged.out());
    assert_eq!(scratch.onewrite("fsck -p a.img").code(), 1);
    debugfs(&scratch, "clri <2>", "a.img").unwrap();
    for command in ["fsck -n a.img", "fsck -p a.img"] {
        let judged = scratch.onewrite(command);
        let last = judged.out().lines().last().unwrap_or_default().to_owned();
        assert!(last.contains("`onewrite fsck -y` repairs it"), "{command}: {last}");
        assert!(!judged.out().contains("e2fsck may repair"), "{command}: {}", judged.out());
    }
}

#[test]
fn a_place_is_told_once() {
    let scratch = Scratch::new();
    tree(&scratch);
    scratch.onewrite("mkfs a.img --size 64MiB --from tree").ok();
    let image = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    image.write_all_at(&[0x55; 2], 1024 + 0x10).unwrap();
    let said = scratch.onewrite("ls a.img").fails_with(2);
    assert!(said.contains("damaged file system: superblock: "), "{said}");
    assert!(!scratch.onewrite("fsck -y a.img").out().contains("superblock at the superblock"));
}

#[test]
fn what_holds_no_pages_is_no_image_and_nobody_waits_for_it() {
    let scratch = Scratch::new();
    scratch.other("mkfifo", "pipe").unwrap().ok();
    for (command, what) in [
        ("ls pipe", "it is a pipe"),
        ("fsck pipe", "it is a pipe"),
        ("mkfs pipe", "it is a pipe"),
        ("fsck /dev/null", "it is a character device"),
    ] {
        let refused = scratch.onewrite(command);
        let told = refused.err();
        assert!(refused.code() != 0 && told.contains(what), "{command}: {told}");
        assert!(told.contains("name a file or block device"), "{command}: {told}");
    }
}
