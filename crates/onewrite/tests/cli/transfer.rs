//! Copies into images, out of them, between and within them: what is kept, and what remains after an interruption.

use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;

use onewrite_testing::skipped;

use crate::support::Scratch;

fn e2fsck_is_content(scratch: &Scratch, image: &str) {
    if let Some(judged) = scratch.other("e2fsck", &format!("-fn {image}")) {
        judged.ok();
    }
}

/// Makes a tree with everything that a file system keeps. False, with a message, if a tool is missing or the user is
/// not root.
fn everything(scratch: &Scratch) -> bool {
    if scratch.as_path().metadata().unwrap().uid() != 0 {
        skipped!("only root makes device nodes and gives files away");
        return false;
    }
    scratch.write("tree/d/file", "content");
    scratch.write("tree/d/tool", "tool");
    std::fs::hard_link(scratch.path("tree/d/file"), scratch.path("tree/other name")).unwrap();
    symlink("d/file", scratch.path("tree/link")).unwrap();
    drop(UnixListener::bind(scratch.path("tree/socket")).unwrap());
    let sparse = std::fs::File::create(scratch.path("tree/sparse")).unwrap();
    for offset in [0, 3 << 20, (3 << 20) + 8192] {
        sparse.write_all_at(&[7; 4096], offset).unwrap();
    }
    sparse.set_len(9_000_001).unwrap();
    let commands = [
        "mkfifo tree/pipe",
        "mknod tree/null c 1 3",
        "mknod tree/disk b 300 70000",
        "chown 1234:70000 tree/d/file tree/d tree/pipe",
        "chown -h 99:98 tree/link",
        "chmod 06751 tree/d/tool",
        "chmod 01770 tree/d",
        "setfattr -n user.colour -v blue tree/d/file",
        "setfattr -n user.directory -v yes tree/d",
        "setfattr -n trusted.deep -v root tree/d/tool",
        "setfattr -h -n trusted.link -v root tree/link",
        "setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 tree/d/tool",
        "setfacl -m u:1000:r,g:2000:rwx tree/d/file",
        "setfacl -d -m u:1000:rw tree/d",
        "touch -h -d 2001-02-03T04:05:06.789 tree/link tree/pipe tree/sparse",
        "touch -d 1999-12-31T23:59:59.5 tree/d tree/d/file",
    ];
    commands.iter().all(|command| {
        let (program, arguments) = command.split_once(' ').unwrap();
        scratch.other(program, arguments).map(|done| done.ok()).is_some()
    })
}

/// The entries of a tree with all their properties, as text from standard tools.
fn inventory(scratch: &Scratch, tree: &str) -> String {
    let script = format!(
        "cd {tree} && rmdir lost+found 2>/dev/null; \
         find . -mindepth 1 ! -type d -printf '%p %y %m %U:%G %n %s %l %T@\\n' | sort && \
         find . -mindepth 1 -type d -printf '%p %m %U:%G %T@\\n' | sort && \
         getfattr -h -d -m - d d/file d/tool link 'other name' && getfacl -n d d/file d/tool 'other name' && \
         ls -l null disk | cut -d' ' -f5,6 && du -k sparse"
    );
    scratch.write("inventory", script);
    scratch.other("sh", "inventory").unwrap().ok()
}

#[test]
fn everything_is_kept_into_an_image_and_out_of_it() {
    let scratch = Scratch::new();
    if !everything(&scratch) {
        return;
    }
    let told = inventory(&scratch, "tree");
    let accessed = scratch.path("tree/d/file").metadata().unwrap().atime();
    for fact in
        ["user.colour=\"blue\"", "security.capability", "user:1000:r--", "default:user:1000:rw-", "1234:70000 2 7 "]
    {
        assert!(told.contains(fact), "{fact}: {told}");
    }
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    e2fsck_is_content(&scratch, "a.img");
    scratch.onewrite("cp -p a.img:/ out").ok();
    assert_eq!(scratch.path("out/d/file").metadata().unwrap().atime(), accessed);
    assert_eq!(inventory(&scratch, "out"), told);
    scratch
        .other(
            "diff",
            "-r --no-dereference --exclude=lost+found --exclude=pipe --exclude=socket --exclude=null \
                        --exclude=disk tree out",
        )
        .unwrap()
        .ok();
    std::fs::create_dir(scratch.path("mnt")).unwrap();
    if scratch.other("mount", "-o loop a.img mnt").is_none_or(|mounted| mounted.code() != 0) {
        skipped!("this machine does not mount images");
        return;
    }
    let seen = std::panic::catch_unwind(|| inventory(&scratch, "mnt"));
    std::fs::create_dir(scratch.path("mnt/kernel")).unwrap();
    scratch.other("cp", "-a tree mnt/kernel").unwrap().ok();
    scratch.other("umount", "mnt").unwrap().ok();
    assert_eq!(seen.unwrap(), told);
    scratch.onewrite("cp -p a.img:/kernel/tree back").ok();
    assert_eq!(inventory(&scratch, "back"), told);
}

#[test]
fn names_of_one_file_stay_one_file_across_sources() {
    let scratch = Scratch::new();
    scratch.write("one", "content");
    std::fs::hard_link(scratch.path("one"), scratch.path("two")).unwrap();
    scratch.onewrite("mkfs a.img --size 64M").ok();
    scratch.onewrite("cp one two a.img:/").ok();
    assert!(scratch.onewrite("stat a.img:/two").ok().contains(", 2 links"));
    scratch.onewrite("cp one two a.img:/").ok();
    assert!(scratch.onewrite("stat a.img:/two").ok().contains(", 2 links"));
    std::fs::create_dir(scratch.path("out")).unwrap();
    for _ in 0..2 {
        scratch.onewrite("cp a.img:/one a.img:/two out").ok();
        assert_eq!(scratch.path("out/one").metadata().unwrap().nlink(), 2);
        assert_eq!(scratch.path("out").read_dir().unwrap().count(), 2, "no partial file is left");
    }
    e2fsck_is_content(&scratch, "a.img");
}

#[test]
fn images_copy_to_each_other_and_within_themselves() {
    let scratch = Scratch::new();
    scratch.write("tree/d/file", vec![7; 3_000_000]);
    scratch.write("tree/d/e/small", "small");
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    scratch.onewrite("mkfs b.img --size 64M").ok();
    scratch.write("host", "host");
    scratch.onewrite("cp a.img:/d host a.img:/d/e/small b.img:/").ok();
    assert_eq!(scratch.onewrite("tree b.img").ok().lines().count(), 8);
    assert_eq!(scratch.onewrite("cat b.img:/d/file").ok().len(), 3_000_000);
    scratch.onewrite("cp b.img:/d b.img:/copy").ok();
    assert_eq!(scratch.onewrite("cat b.img:/copy/e/small").ok(), "small");
    let refused = scratch.onewrite("cp b.img:/d b.img:/d/e");
    assert_eq!(refused.code(), 1);
    assert!(refused.err().contains("not copied into itself"), "{}", refused.err());
    assert!(scratch.onewrite("cp b.img:/d/file b.img:/d").fails_with(1).contains("the same file"));
    assert_eq!(scratch.onewrite("cat b.img:/d/file").ok().len(), 3_000_000);
    e2fsck_is_content(&scratch, "b.img");
}

#[test]
fn names_in_an_image_are_made_moved_and_removed() {
    let scratch = Scratch::new();
    scratch.write("file", "content");
    scratch.onewrite("mkfs a.img --size 64M").ok();
    assert!(scratch.onewrite("mkdir a.img:/d/e").fails_with(1).contains("-p"));
    scratch.onewrite("mkdir -p a.img:/d/e a.img:/d/f").ok();
    scratch.onewrite("mkdir -p a.img:/d/e").ok();
    assert!(scratch.onewrite("mkdir a.img:/d").fails_with(1).contains("exists already"));
    scratch.onewrite("cp file a.img:/d").ok();
    scratch.onewrite("mv a.img:/d/file a.img:/d/f a.img:/d/e").ok();
    scratch.onewrite("mv a.img:/d/e/file a.img:/renamed").ok();
    assert_eq!(scratch.onewrite("ls a.img:/d/e").ok(), "f\n");
    let shown = scratch.onewrite("stat a.img:/renamed").ok();
    assert!(
        shown.contains("regular file") && shown.contains("7 bytes") && shown.contains("0644 -rw-r--r--"),
        "{shown}"
    );
    assert!(scratch.onewrite("mv a.img:/d a.img:/d/e").fails_with(1).contains("into itself"));
    assert!(scratch.onewrite("rm a.img:/d").fails_with(1).contains("-r"));
    assert!(scratch.onewrite("rm a.img:/none").fails_with(1).contains("/none"));
    scratch.onewrite("rm -r a.img:/d a.img:/renamed").ok();
    assert_eq!(scratch.onewrite("ls a.img").ok(), "lost+found\n");
    assert!(scratch.onewrite("rm file").err().contains("IMAGE:/PATH"));
    e2fsck_is_content(&scratch, "a.img");
}

#[test]
fn a_copy_that_finds_the_image_full_leaves_what_was_there() {
    let scratch = Scratch::new();
    scratch.write("old/big", "old");
    scratch.write("new/big", vec![7; 60 << 20]);
    scratch.write("new/small", vec![7; 1 << 20]);
    scratch.onewrite("mkfs a.img --size 32M --from old").ok();
    let copied = scratch.onewrite("cp new/big new/small a.img:/");
    assert!(copied.code() != 0);
    let told = copied.err();
    assert!(told.contains("KiB are missing") && told.contains("onewrite rm") && told.contains("new/big"), "{told}");
    assert_eq!(scratch.onewrite("cat a.img:/big").ok(), "old");
    assert_eq!(scratch.onewrite("ls a.img").ok(), "big\nlost+found\n");
    e2fsck_is_content(&scratch, "a.img");
}

#[test]
fn a_source_that_cannot_be_read_is_left_out_and_the_rest_is_copied() {
    let scratch = Scratch::new();
    scratch.write("good", "good");
    scratch.onewrite("mkfs a.img --size 64M").ok();
    // Nobody can read the first page of `mem`; `clear_refs` does not seek, for data neither, and is not for reading.
    let sources = "/proc/self/mem /proc/self/clear_refs none good /proc/version";
    let told = scratch.onewrite(&format!("cp {sources} a.img:/")).fails_with(1);
    assert!(told.contains("/mem") && told.contains("/clear_refs") && told.contains("none"), "{told}");
    assert_eq!(scratch.onewrite("ls a.img").ok(), "good\nlost+found\nversion\n");
    assert!(scratch.onewrite("cat a.img:/version").ok().contains("Linux"));
}

/// As with cp(1), into an image and out of one.
#[test]
fn a_dot_stands_for_the_content_of_a_directory() {
    let scratch = Scratch::new();
    scratch.write("tree/d/file", "content");
    scratch.onewrite("mkfs i.img --size 64M").ok();
    for place in ["tree/.", "tree/d/.."] {
        scratch.onewrite(&format!("cp {place} i.img:/")).ok();
        assert_eq!(scratch.onewrite("ls i.img:/").ok().trim(), "d\nlost+found", "{place}");
        scratch.onewrite("rm -r i.img:/d").ok();
    }
    scratch.onewrite("cp tree i.img:/").ok();
    std::fs::create_dir(scratch.path("out")).unwrap();
    scratch.onewrite("cp i.img:/tree/. out").ok();
    assert_eq!(std::fs::read(scratch.path("out/d/file")).unwrap(), b"content");
}

#[test]
fn an_image_in_the_tree_that_is_copied_into_it_is_left_out() {
    let scratch = Scratch::new();
    scratch.write("tree/f", "content");
    for command in ["mkfs tree/a.img --size 64M --from tree", "cp tree tree/a.img:/"] {
        let told = scratch.onewrite(command).fails_with(1);
        assert!(told.contains("it is the image that is copied into"), "{command}: {told}");
    }
    assert_eq!(scratch.onewrite("ls tree/a.img").ok(), "f\nlost+found\ntree\n");
    assert_eq!(scratch.onewrite("ls tree/a.img:/tree").ok(), "f\n");
    e2fsck_is_content(&scratch, "tree/a.img");
}

#[test]
fn a_copy_that_finds_the_host_full_leaves_what_was_there() {
    let scratch = Scratch::new();
    scratch.write("tree/a", vec![7; 100_000]);
    scratch.write("tree/b", vec![7; 3 << 20]);
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    std::fs::create_dir(scratch.path("full")).unwrap();
    if scratch.other("mount", "-t tmpfs -o size=1M none full").is_none_or(|mounted| mounted.code() != 0) {
        skipped!("this machine does not mount file systems in memory");
        return;
    }
    std::fs::write(scratch.path("full/b"), "old").unwrap();
    let copied = scratch.onewrite("cp a.img:/a a.img:/b full");
    let (b, names) = (std::fs::read(scratch.path("full/b")), scratch.path("full").read_dir().unwrap().count());
    let a = std::fs::metadata(scratch.path("full/a"));
    scratch.other("umount", "full").unwrap().ok();
    assert!(copied.code() != 0 && copied.err().contains("make room"), "{}", copied.err());
    assert_eq!((b.unwrap(), names, a.unwrap().len()), (b"old".to_vec(), 2, 100_000));
}

#[test]
fn zeros_at_the_end_of_a_file_count_as_its_content() {
    let scratch = Scratch::new();
    // Only zeros, zeros in the last page, a last piece of the copy that is zeros; the host stores all of them.
    for (name, data, zeros) in [("only", 0, 5_000), ("little", 1, 99), ("piece", 1 << 20, 1 << 20), ("odd", 3, 2 << 20)]
    {
        scratch.write(&format!("tree/{name}"), [vec![7; data], vec![0; zeros]].concat());
    }
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    e2fsck_is_content(&scratch, "a.img");
    scratch.onewrite("cp tree a.img:/again").ok();
    for from in ["/", "/again"] {
        scratch.onewrite(&format!("cp a.img:{from} out")).ok();
        scratch.other("diff", "-r --exclude=lost+found --exclude=again tree out").unwrap().ok();
        std::fs::remove_dir_all(scratch.path("out")).unwrap();
    }
}

#[test]
fn attributes_in_blocks_come_with_the_feature_that_names_them() {
    let scratch = Scratch::new();
    scratch.write("file", "content");
    let value = "v".repeat(3000);
    scratch.other("setfattr", &format!("-n user.large -v {value} file")).unwrap().ok();
    scratch.other("mke2fs", "-q -F -t ext4 -b 4096 -O ^ext_attr,^large_file a.img 64M").unwrap().ok();
    scratch.onewrite("cp file a.img:/").ok();
    e2fsck_is_content(&scratch, "a.img");
    scratch.write("damage", "debugfs -w -R 'feature -ext_attr' a.img");
    scratch.other("sh", "damage").unwrap().ok();
    let found = scratch.onewrite("fsck -n a.img");
    found.fails_with(4);
    assert!(found.out().contains("without the feature ext_attr"), "{}", found.out());
    scratch.onewrite("fsck -y a.img").fails_with(1);
    e2fsck_is_content(&scratch, "a.img");
    scratch.onewrite("cp -p a.img:/file out").ok();
    assert!(scratch.other("getfattr", "-n user.large out").unwrap().ok().contains(&value));
}
