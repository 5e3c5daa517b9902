//! Images of strangers: made by e2fsprogs, then crafted by hand. A copy writes nothing outside its target.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use onewrite_testing::skipped;

use crate::support::Scratch;

/// Makes an image without checksums; each line is a debugfs command. False, with a message, if e2fsprogs is missing.
fn image(scratch: &Scratch, commands: &str) -> bool {
    let Some(made) = scratch.other("mke2fs", "-q -F -t ext4 -b 4096 -O ^metadata_csum a.img 16M") else { return false };
    made.ok();
    scratch.write("commands", commands);
    let Some(done) = scratch.other("debugfs", "-w -f commands a.img") else { return false };
    done.ok();
    true
}

/// Replaces every occurrence of `from` in the image.
fn patch(scratch: &Scratch, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(scratch.path("a.img")).unwrap();
    let starts: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter(|(_, window)| *window == from.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!starts.is_empty(), "{from} is in the image");
    for start in starts {
        bytes[start..start + to.len()].copy_from_slice(to.as_bytes());
    }
    std::fs::write(scratch.path("a.img"), bytes).unwrap();
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        path.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn names_that_are_paths_lead_nowhere_and_are_told() {
    let scratch = Scratch::new();
    scratch.write("evil", "evil");
    if !image(&scratch, "write evil one-two-four\nwrite evil good\nmkdir three-four\nmkdir sub\ncd sub\nwrite evil xy")
    {
        return;
    }
    let absolute = format!("/tmp/ow{:04}", std::process::id() % 10_000);
    scratch.write("absolute", "evil");
    scratch.write("commands", format!("write absolute {}", absolute.replace('/', "+")));
    scratch.other("debugfs", "-w -f commands a.img").unwrap().ok();
    patch(&scratch, "one-two-four", "../../escape");
    patch(&scratch, "three-four", "../../trap");
    patch(&scratch, "\u{2}\u{1}xy", "\u{2}\u{1}..");
    patch(&scratch, &absolute.replace('/', "+"), &absolute);
    std::fs::create_dir_all(scratch.path("a/b")).unwrap();
    let before = names(&scratch.path("a"));
    let copied = scratch.onewrite("cp a.img:/ a/b/out");
    assert_eq!(copied.code(), 1, "{}{}", copied.out(), copied.err());
    assert_eq!((names(&scratch.path("a")), names(&scratch.path("a/b"))), (before, vec!["out".to_owned()]));
    assert!(!Path::new(&absolute).exists());
    assert_eq!(names(&scratch.path("a/b/out")), ["good", "lost+found", "sub"]);
    let told = copied.err();
    assert!(told.contains("a/b/out/../../escape: damaged directory: its name holds a slash"), "{told}");
    assert!(told.contains("a second entry `.` or `..`"), "{told}");
}

#[test]
fn a_link_is_no_way_out_for_a_directory_of_its_name() {
    let scratch = Scratch::new();
    scratch.write("evil", "evil");
    std::fs::create_dir(scratch.path("outside")).unwrap();
    let link = format!("symlink twinA {}", scratch.path("outside").display());
    if !image(&scratch, &format!("{link}\nmkdir twinB\ncd twinB\nwrite evil evil")) {
        return;
    }
    patch(&scratch, "twinB", "twinA");
    let copied = scratch.onewrite("cp a.img:/ out");
    assert_eq!(copied.code(), 1);
    assert!(copied.err().contains("out/twinA: damaged directory: a second entry of that name"), "{}", copied.err());
    assert!(names(&scratch.path("outside")).is_empty());
}

#[test]
fn what_the_host_has_is_neither_followed_nor_opened() {
    let scratch = Scratch::new();
    for name in ["tree/link", "tree/pipe", "tree/d/file"] {
        scratch.write(name, "new");
    }
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    let victim = scratch.write("victim", "old");
    std::fs::create_dir_all(scratch.path("out/elsewhere")).unwrap();
    symlink(&victim, scratch.path("out/link")).unwrap();
    symlink("elsewhere", scratch.path("out/d")).unwrap();
    scratch.other("mkfifo", "out/pipe").unwrap().ok();
    let copied = scratch.onewrite("cp a.img:/ out");
    assert_eq!(copied.code(), 1, "{}", copied.err());
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "old");
    assert!(scratch.path("out/link").symlink_metadata().unwrap().is_file(), "the link was replaced");
    assert!(names(&scratch.path("out/elsewhere")).is_empty());
    assert!(scratch.path("out/pipe").symlink_metadata().unwrap().file_type().is_fifo());
    let told = copied.err();
    assert!(told.contains("out/d: on the host there is something of that name that is no directory"), "{told}");
    assert!(told.contains("out/pipe: on the host there is a pipe"), "{told}");
}

#[test]
fn rights_are_only_kept_on_purpose() {
    let scratch = Scratch::new();
    scratch.write("tree/tool", "tool");
    if !image(
        &scratch,
        "write tree/tool tool\nsif tool mode 0107755\nsif tool uid 1234\nsif tool gid 77\nmkdir d\nsif d mode 0043777",
    ) {
        return;
    }
    scratch.write("commands", "ea_set -f value tool security.capability\nea_set tool user.colour blue");
    scratch.write("value", [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    scratch.other("debugfs", "-w -f commands a.img").unwrap().ok();
    scratch.onewrite("cp a.img:/ plain").ok();
    let tool = scratch.path("plain/tool").metadata().unwrap();
    assert_eq!(tool.mode() & 0o7000, 0, "{:o}", tool.mode());
    assert_eq!(tool.mode() & 0o700, 0o700);
    assert_eq!(scratch.path("plain/d").metadata().unwrap().mode() & 0o7000, 0);
    assert_eq!(tool.uid(), scratch.as_path().metadata().unwrap().uid());
    let Some(kept) = scratch.other("getfattr", "-d -m - plain/tool") else { return };
    assert!(kept.ok().contains("user.colour=\"blue\"") && !kept.ok().contains("security.capability"), "{}", kept.ok());
    if tool.uid() != 0 {
        skipped!("only root keeps owners");
        return;
    }
    scratch.onewrite("cp -p a.img:/ whole").ok();
    let tool = scratch.path("whole/tool").metadata().unwrap();
    assert_eq!((tool.mode() & 0o7777, tool.uid(), tool.gid()), (0o7755, 1234, 77));
    assert_eq!(scratch.path("whole/d").metadata().unwrap().mode() & 0o7777, 0o3777);
    assert!(scratch.other("getfattr", "-d -m - whole/tool").unwrap().ok().contains("security.capability"));
}

#[test]
fn a_file_that_is_written_over_keeps_its_permissions() {
    let scratch = Scratch::new();
    scratch.write("tree/secret", "new");
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    let old = scratch.write("out/secret", "old");
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o600)).unwrap();
    scratch.onewrite("cp a.img:/secret out").ok();
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "new");
    assert_eq!(old.metadata().unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn cycles_of_directories_end_and_are_named_as_damage() {
    let scratch = Scratch::new();
    scratch.write("file", "content");
    if !image(&scratch, "mkdir d\nmkdir d/e\ncd d/e\nwrite file file") {
        return;
    }
    scratch.write("commands", "ln d d/e/loop\nln d again");
    scratch.other("debugfs", "-w -f commands a.img").unwrap().ok();
    let shown = scratch.onewrite("tree a.img");
    assert_eq!(shown.code(), 1);
    assert_eq!(shown.out().matches("file").count(), 1, "{}", shown.out());
    assert_eq!(shown.out().matches("is a directory with two names").count(), 2, "{}", shown.out());
    let copied = scratch.onewrite("cp a.img:/ out");
    assert_eq!(copied.code(), 1);
    assert_eq!(copied.err().matches("this directory has two names").count(), 2, "{}", copied.err());
    let copies = scratch.other("find", "out -name file").unwrap().ok();
    assert_eq!(copies.lines().count(), 1, "{copies}");
    scratch.onewrite("ls a.img:/d/e/loop").ok();
    let removed = scratch.onewrite("rm -r a.img:/d");
    assert!(removed.code() != 0 && removed.err().contains("has a second name"), "{}", removed.err());
}

#[test]
fn depth_is_no_obstacle() {
    const LEVELS: u32 = 3000;
    let scratch = Scratch::new();
    scratch.write(
        "make",
        format!("chdir shift; for (1..{LEVELS}) {{ mkdir 'd' or die; chdir 'd' or die }} open F, '>', 'leaf'"),
    );
    scratch.write("seek", format!("chdir shift; for (1..{LEVELS}) {{ chdir 'd' or die }} -e 'leaf' or die"));
    std::fs::create_dir(scratch.path("deep")).unwrap();
    let Some(made) = scratch.other("perl", "make deep") else { return };
    made.ok();
    scratch.onewrite("mkfs a.img --size 128M --from deep").ok();
    let copied = scratch.onewrite("cp a.img:/ out");
    let found = scratch.other("perl", "seek out").unwrap();
    let lines = scratch.onewrite("tree a.img").ok().lines().count();
    let removed = scratch.onewrite("rm -r a.img:/d");
    scratch.other("rm", "-rf deep out").unwrap().ok();
    copied.ok();
    found.ok();
    removed.ok();
    assert_eq!(lines, LEVELS as usize + 3);
}

#[test]
fn a_terminal_sees_names_escaped_and_a_pipe_sees_them_raw() {
    let scratch = Scratch::new();
    scratch.write("tree/a\u{1b}[31mb\nc", "");
    scratch.onewrite("mkfs a.img --size 64M --from tree").ok();
    for look in ["ls", "tree"] {
        assert!(scratch.onewrite(&format!("{look} a.img")).out().contains("a\u{1b}[31mb\nc"));
        let command = format!("{} {look} a.img", env!("CARGO_BIN_EXE_onewrite"));
        let mut terminal = std::process::Command::new("script");
        terminal.args(["-qec", &command, "/dev/null"]).current_dir(scratch.as_path());
        let Ok(seen) = terminal.output() else {
            skipped!("script (util-linux) is not installed");
            return;
        };
        let seen = String::from_utf8(seen.stdout).unwrap();
        assert!(seen.contains("a\\033[31mb\\nc") && !seen.contains('\u{1b}'), "{look}: {seen:?}");
    }
    let refused = scratch.onewrite_with(&["cat", "a.img:/no\u{1b}[2Jne"]);
    assert!(refused.err().contains("\\033[2J") && !refused.err().contains('\u{1b}'), "{}", refused.err());
}
