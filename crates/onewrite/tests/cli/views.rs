//! Read-only images: reading them and copying out of them needs no write permission; images of other tools are read
//! too.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;

use onewrite_testing::skipped;

use crate::support::Scratch;

/// An image by mke2fs with a small tree; `None`, with a message, without e2fsprogs.
fn foreign(scratch: &Scratch, arguments: &str) -> Option<()> {
    scratch.write("tree/a.txt", "alpha\n");
    scratch.write("tree/deep/b.bin", vec![7; 300_000]);
    std::os::unix::fs::symlink("../a.txt", scratch.path("tree/deep/link")).unwrap();
    let made = scratch.other("mke2fs", &format!("-q -F {arguments} -d tree a.img 24M"))?;
    made.ok();
    Some(())
}

fn looks_work(scratch: &Scratch, options: &str) {
    assert_eq!(scratch.onewrite(&format!("ls {options} a.img")).ok(), "a.txt\ndeep\nlost+found\n");
    assert_eq!(scratch.onewrite(&format!("cat {options} a.img:/a.txt")).ok(), "alpha\n");
    assert_eq!(
        scratch.onewrite(&format!("tree {options} a.img:/deep")).ok(),
        "/deep\n├── b.bin\n└── link -> ../a.txt\n"
    );
    scratch.onewrite(&format!("cp {options} a.img:/deep out")).ok();
    assert_eq!(std::fs::read(scratch.path("out/b.bin")).unwrap(), vec![7; 300_000]);
    std::fs::remove_dir_all(scratch.path("out")).unwrap();
}

#[test]
fn images_of_other_block_sizes_and_ages_are_looked_at_and_copied_out_of() {
    for arguments in ["-t ext2 -b 1024", "-t ext3 -b 2048", "-t ext4 -b 1024", "-t ext4 -b 4096 -O inline_data,quota"] {
        let scratch = Scratch::new();
        let Some(()) = foreign(&scratch, arguments) else { return };
        let before = std::fs::read(scratch.path("a.img")).unwrap();
        looks_work(&scratch, "");
        assert!(std::fs::read(scratch.path("a.img")).unwrap() == before, "{arguments}");
    }
}

#[test]
fn an_f2fs_image_is_looked_at_copied_out_of_and_left_as_it_is() {
    let scratch = Scratch::new();
    scratch.write("tree/a.txt", "alpha\n");
    scratch.write("tree/deep/b.bin", vec![7; 300_000]);
    std::os::unix::fs::symlink("../a.txt", scratch.path("tree/deep/link")).unwrap();
    std::fs::File::create(scratch.path("a.img")).unwrap().set_len(64 << 20).unwrap();
    let Some(made) = scratch.other("mkfs.f2fs", "-q -O extra_attr,inode_checksum,lost_found a.img") else { return };
    made.ok();
    assert!(matches!(scratch.other("sload.f2fs", "-f tree a.img").unwrap().code(), 0 | 1));
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    looks_work(&scratch, "");
    assert!(scratch.onewrite("stat a.img:/deep/b.bin").ok().contains("300000"));
    for (arguments, said) in [("ls --rescue a.img", "a rescue of F2FS"), ("fsck -y a.img", "only checked")] {
        let refused = scratch.onewrite(arguments);
        assert!(matches!(refused.code(), 2 | 8) && refused.err().contains(said), "{arguments}: {}", refused.err());
    }
    assert!(scratch.onewrite("fsck a.img").ok().contains("clean, 6 inodes"));
    scratch.onewrite("mkfs b.img --size 32MiB").ok();
    scratch.onewrite("cp a.img:/deep b.img:/").ok();
    assert_eq!(scratch.onewrite("tree b.img:/deep").ok(), "/deep\n├── b.bin\n└── link -> ../a.txt\n");
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == before);
}

#[test]
fn an_empty_f2fs_image_is_made_and_is_the_same_for_one_seed() {
    let scratch = Scratch::new();
    assert_eq!(scratch.onewrite("mkfs a.img --fs f2fs --size 64MiB --seed 3").ok(), "a.img: F2FS of 64 MiB\n");
    scratch.onewrite("mkfs b.img --fs f2fs --size 64MiB --seed 3").ok();
    let read = |name: &str| std::fs::read(scratch.path(name)).unwrap();
    assert!(read("a.img") == read("b.img"));
    assert!(scratch.onewrite("fsck a.img").ok().contains("clean, 1 inodes and 2 blocks"));
    assert_eq!(scratch.onewrite("ls a.img").ok(), "");
    if let Some(judged) = scratch.other("fsck.f2fs", "--dry-run a.img") {
        judged.ok();
    }
    std::fs::create_dir(scratch.path("tree")).unwrap();
    for (arguments, said) in [
        ("mkfs c.img --fs f2fs --size 64MiB --journal-size 4MiB", "F2FS has no journal"),
        ("mkfs c.img --fs f2fs --size 1MiB", "64 MiB to 16 TiB"),
        ("mkfs a.img --fs f2fs", "an F2FS file system"),
    ] {
        let refused = scratch.onewrite(arguments);
        assert!(refused.code() == 2 && refused.err().contains(said), "{arguments}: {}", refused.err());
    }
    assert!(!scratch.path("c.img").exists());
}

#[test]
fn an_f2fs_image_is_changed_in_place_and_stays_clean() {
    let scratch = Scratch::new();
    scratch.write("tree/a.txt", "alpha\n");
    scratch.write("tree/deep/b.bin", vec![7; 300_000]);
    let made = scratch.onewrite("mkfs a.img --fs f2fs --size 64MiB --from tree").ok();
    assert!(made.contains("F2FS of 64 MiB") && made.contains("2 files, 2 directories"), "{made}");
    scratch.write("c.txt", "gamma\n");
    for arguments in ["mkdir a.img:/d", "cp c.txt a.img:/d", "mv a.img:/deep a.img:/d/", "rm a.img:/a.txt"] {
        scratch.onewrite(arguments).ok();
    }
    assert_eq!(scratch.onewrite("tree a.img").ok(), "/\n└── d\n    ├── c.txt\n    └── deep\n        └── b.bin\n");
    scratch.onewrite("cp a.img:/d/deep/b.bin out.bin").ok();
    assert!(std::fs::read(scratch.path("out.bin")).unwrap() == [7; 300_000]);
    scratch.onewrite("mkfs b.img --size 32MiB").ok();
    scratch.onewrite("cp b.img:/lost+found a.img:/from-ext4").ok();
    assert!(scratch.onewrite("fsck a.img").ok().contains("clean"));
    if let Some(judged) = scratch.other("fsck.f2fs", "--dry-run a.img") {
        let said = judged.ok();
        assert!(!said.contains("[Fail]") && !said.contains("[ASSERT]"), "{said}");
    }
    scratch.write("large", vec![1; 64 << 20]);
    let refused = scratch.onewrite("cp large a.img:/");
    assert!(refused.code() == 3 && refused.err().contains("the image is full"), "{}", refused.err());
    assert!(scratch.onewrite("fsck a.img").ok().contains("clean"));
}

#[test]
fn damage_to_an_f2fs_image_is_told_and_left() {
    let scratch = Scratch::new();
    std::fs::File::create(scratch.path("a.img")).unwrap().set_len(64 << 20).unwrap();
    let Some(made) = scratch.other("mkfs.f2fs", "-q a.img") else { return };
    made.ok();
    let image = std::fs::File::options().write(true).open(scratch.path("a.img")).unwrap();
    // The bitmap of segment 9 in both copies of the SIT, which nothing uses.
    for copy in [1536, 2048] {
        image.write_all_at(&[1], copy * 4096 + 9 * 74 + 20).unwrap();
    }
    let said = scratch.onewrite("fsck -n a.img").fails_with(4);
    let told = scratch.onewrite("fsck -n a.img").out() + &said;
    assert!(told.contains("SIT entry of segment 9") && told.contains("fsck.f2fs may repair it"), "{told}");
    let json = scratch.onewrite("fsck --json - a.img").out();
    assert!(json.contains("\"clean\": false") && json.contains("segment 9"), "{json}");
    for copy in [0, 1] {
        image.write_all_at(&[13], copy * 4096 + 1024 + 16).unwrap();
    }
    let told = scratch.onewrite("fsck a.img");
    assert!(told.code() == 4 && told.out().contains("too damaged to check"), "{}", told.out());
}

/// Runs the program as nobody; `None`, with a message, if that is not possible.
fn as_nobody(scratch: &Scratch, arguments: &str) -> Option<std::process::Output> {
    let program = scratch.path("onewrite");
    std::fs::copy(env!("CARGO_BIN_EXE_onewrite"), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    let output = command.args(arguments.split_whitespace()).current_dir(scratch.as_path()).output();
    output.map_err(|error| skipped!("setpriv: {error}")).ok().filter(|output| {
        let is_possible = !String::from_utf8_lossy(&output.stderr).contains("setpriv:");
        if !is_possible {
            skipped!("{}", String::from_utf8_lossy(&output.stderr));
        }
        is_possible
    })
}

#[test]
fn reading_needs_no_permission_to_write() {
    let scratch = Scratch::new();
    let Some(()) = foreign(&scratch, "-t ext4 -b 4096") else { return };
    std::fs::set_permissions(scratch.path("a.img"), std::fs::Permissions::from_mode(0o444)).unwrap();
    for (arguments, expected) in [("cat a.img:/a.txt", "alpha\n"), ("ls a.img", "a.txt\ndeep\nlost+found\n")] {
        let Some(output) = as_nobody(&scratch, arguments) else { return };
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
    let Some(output) = as_nobody(&scratch, "fsck -n a.img") else { return };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("clean"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_read_only_block_device_is_read() {
    let scratch = Scratch::new();
    let Some(()) = foreign(&scratch, "-t ext4 -b 1024") else { return };
    let attached = scratch.other("losetup", "-r -f --show a.img");
    let Some(attached) = attached.filter(|attached| attached.code() == 0) else {
        return skipped!("no loop device");
    };
    let device = attached.ok().trim().to_owned();
    let listed = scratch.onewrite(&format!("ls {device}"));
    scratch.other("losetup", &format!("-d {device}")).unwrap().ok();
    assert_eq!(listed.ok(), "a.txt\ndeep\nlost+found\n");
}

#[test]
fn a_rescue_reads_a_damaged_image_and_tells_what_is_lost() {
    let scratch = Scratch::new();
    let Some(()) = foreign(&scratch, "-t ext4 -b 1024") else { return };
    let image = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    image.write_all_at(&[0xff; 1024], 1024).unwrap();
    assert!(scratch.onewrite("ls a.img").fails_with(2).contains("superblock"));
    let rescued = scratch.onewrite("cat --rescue a.img:/a.txt");
    assert_eq!((rescued.code(), rescued.out().as_str()), (1, "alpha\n"), "{}", rescued.err());
    assert!(rescued.err().contains("a backup is used"), "{}", rescued.err());
    let listed = scratch.onewrite("ls --rescue a.img");
    assert_eq!((listed.code(), listed.out().as_str()), (1, "a.txt\ndeep\nlost+found\n"));
    let copied = scratch.onewrite("cp --rescue a.img:/a.txt out.txt");
    assert_eq!(copied.code(), 1, "{}", copied.err());
    assert_eq!(std::fs::read(scratch.path("out.txt")).unwrap(), b"alpha\n");
}

#[test]
fn fsck_of_an_image_that_is_read_only_names_the_look_that_works() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64MiB").ok();
    std::fs::set_permissions(scratch.path("a.img"), std::fs::Permissions::from_mode(0o444)).unwrap();
    for (command, cure) in
        [("fsck", "`onewrite fsck -n`"), ("fsck -y", "`onewrite fsck -n`"), ("mkdir", "work on a copy")]
    {
        let place = if command == "mkdir" { "a.img:/d" } else { "a.img" };
        let Some(refused) = as_nobody(&scratch, &format!("{command} {place}")) else { return };
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(cure) && said.contains("read-only for you"), "{command}: {said}");
    }
    let looked = as_nobody(&scratch, "fsck -n a.img").unwrap();
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
}

#[test]
fn a_rescue_without_a_root_directory_shows_what_is_left() {
    let scratch = Scratch::new();
    let Some(()) = foreign(&scratch, "-t ext4 -b 4096") else { return };
    let deep = scratch.onewrite("stat a.img:/deep").ok();
    let number = deep.split_once("Inode: ").unwrap().1.split_once(',').unwrap().0;
    scratch.write("requests", "clri <2>\n");
    scratch.other("debugfs", "-w -f requests a.img").unwrap().ok();
    assert!(scratch.onewrite("ls a.img").fails_with(2).contains("--rescue"));
    let listed = scratch.onewrite("ls --rescue a.img");
    assert!(
        listed.out().lines().all(|name| name.starts_with('#')) && listed.out().lines().count() == 3,
        "{}",
        listed.out()
    );
    assert!(listed.out().contains(&format!("#{number}\n")), "{deep}{}", listed.out());
    let shown = scratch.onewrite("tree --rescue a.img").out();
    assert!(shown.contains("b.bin") && shown.contains("link -> ../a.txt"), "{shown}");
    assert_eq!(scratch.onewrite("cp --rescue a.img:/ out").code(), 1, "something was lost");
    assert_eq!(std::fs::read(scratch.path(&format!("out/#{number}/b.bin"))).unwrap(), vec![7; 300_000]);
}

/// What is refused is refused before anything is written, and what is over-written is gone before it is written over.
#[test]
fn a_refused_mkfs_leaves_the_image_and_a_new_one_leaves_nothing_of_the_old() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64MiB --seed 1").ok();
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    for refused in [
        "mkfs a.img --force --fs f2fs --journal-size 4MiB",
        "mkfs a.img --force --journal-size 5",
        "mkfs a.img --force --journal-size 60MiB",
        "mkfs a.img --force --label a-label-of-more-than-16-bytes",
    ] {
        scratch.onewrite(refused).fails_with(2);
        assert!(std::fs::read(scratch.path("a.img")).unwrap() == before, "{refused}");
    }
    scratch.onewrite("mkfs a.img --force --fs f2fs --seed 1").ok();
    assert_eq!(scratch.onewrite("fsck a.img").code(), 0);
    let f2fs = std::fs::read(scratch.path("a.img")).unwrap();
    assert_eq!(f2fs[1024..1028], f2fs[5120..5124], "both superblocks");
    scratch.onewrite("mkfs a.img --force --seed 1").ok();
    let ext4 = std::fs::read(scratch.path("a.img")).unwrap();
    assert_ne!(ext4[5120..5124], f2fs[5120..5124], "the second superblock of F2FS is gone");
}

#[test]
fn a_place_in_another_form_is_told_how_to_write_it() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs c.img --size 64MiB --seed 1").ok();
    scratch.onewrite("mkdir c.img:/d").ok();
    scratch.write("f1", "one\n");
    scratch.onewrite("cp f1 c.img:/d/f1").ok();
    for (arguments, said) in [
        ("ls c.img:d/f1", "paths in an image begin with a slash; write c.img:/d/f1"),
        ("cat none.img:d/f1", "none.img:d/f1: no such image"),
        ("tree c.img:/d/f1", "/d/f1 is not a directory; `onewrite ls -l` and `onewrite stat` show it"),
        ("crash c.img", "cannot read c.img: it is no text, so no job file"),
        ("crash script:", "actions are needed, such as `script:create /a; sync`"),
    ] {
        let told = scratch.onewrite(arguments).fails_with(2);
        assert!(told.contains(said), "{arguments}: {told}");
        assert_eq!(scratch.onewrite(arguments).out(), "", "{arguments}");
    }
}

/// Old inodes of ext2 have no room for it, and F2FS keeps it by a feature.
#[test]
fn a_time_of_creation_is_shown_where_there_is_one() {
    let scratch = Scratch::new();
    let Some(()) = foreign(&scratch, "-t ext2 -I 128") else { return };
    let said = scratch.onewrite("stat a.img:/a.txt").ok();
    assert!(said.contains("Changed:") && !said.contains("Created"), "{said}");
    scratch.onewrite("mkfs b.img --size 64MiB --fs f2fs").ok();
    assert!(scratch.onewrite("stat b.img:/").ok().contains("Created: 20"), "mkfs sets it");
}

#[test]
fn an_f2fs_without_superblocks_is_written_over_with_force_only() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64MiB --fs f2fs --seed 1").ok();
    let file = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    file.write_all_at(&[0; 8192], 0).unwrap();
    let told = scratch.onewrite("ls a.img").fails_with(2);
    assert!(told.contains("it holds no ext2, ext3, ext4 or F2FS file system"), "{told}");
    let told = scratch.onewrite("mkfs a.img").fails_with(2);
    assert!(told.contains("what is left of an F2FS file system without its superblocks; --force"), "{told}");
    scratch.onewrite("mkfs a.img --force").ok();
}

/// What harms nothing stands in the JSON, too, with its place. A name that is damaged hides itself alone.
#[test]
fn damage_of_an_f2fs_is_told_with_its_place() {
    let scratch = Scratch::new();
    scratch.write("tree/a.txt", "alpha\n");
    scratch.write("tree/b.txt", "beta\n");
    std::fs::File::create(scratch.path("a.img")).unwrap().set_len(64 << 20).unwrap();
    let Some(made) = scratch.other("mkfs.f2fs", "-q a.img") else { return };
    made.ok();
    assert!(matches!(scratch.other("sload.f2fs", "-f tree a.img").unwrap().code(), 0 | 1));
    let file = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    file.write_all_at(&[0; 4], 1024).unwrap();
    let json: serde_json::Value = serde_json::from_str(&scratch.onewrite("fsck a.img --json -").ok()).unwrap();
    let notes = json["notes"].as_array().unwrap();
    assert!(notes.len() == 1 && notes[0].as_str().unwrap().starts_with("superblock 0: magic number"), "{notes:?}");
    let mut bytes = std::fs::read(scratch.path("a.img")).unwrap();
    let places: Vec<usize> =
        bytes.windows(5).enumerate().filter(|(_, found)| *found == b"b.txt").map(|at| at.0).collect();
    places.into_iter().for_each(|at| bytes[at + 1] = b'/');
    std::fs::write(scratch.path("a.img"), bytes).unwrap();
    let listed = scratch.onewrite("ls a.img");
    assert_eq!((listed.code(), listed.out().as_str()), (1, "a.txt\n"), "{}", listed.err());
    assert!(listed.err().contains("not read: ") && listed.err().contains("a slash or a zero"), "{}", listed.err());
    scratch.onewrite("mkfs into.img --size 64MiB").ok();
    let copied = scratch.onewrite("cp a.img:/ into.img:/all");
    assert!(copied.code() == 1 && copied.err().contains("not read: "), "{}", copied.err());
    assert_eq!(scratch.onewrite("cat into.img:/all/a.txt").ok(), "alpha\n");
}
