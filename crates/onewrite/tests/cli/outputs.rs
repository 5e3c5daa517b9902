//! Outputs: none is an input or another output, none replaces an image unless asked to, none is left incomplete.

use std::path::Path;
use std::process::{Command, Stdio};

use onewrite_testing::skipped;

use crate::support::{Scratch, names};

const TRACE: &str = "w,0\nr,0\nw,1\nw,2\nr,5\n";
const JOB: &str = "[w]\nrw=randwrite\nsize=1m\n";

/// The command is refused with these words, and `file` is unchanged.
fn kept(scratch: &Scratch, command: &str, file: &str, words: &str) {
    let before = std::fs::read(scratch.path(file)).unwrap();
    let said = scratch.onewrite(command).fails_with(if command.starts_with("fsck") { 8 } else { 2 });
    assert!(said.contains(words), "{command}: {said}");
    assert!(std::fs::read(scratch.path(file)).unwrap() == before, "{command}: {file} has changed");
}

#[test]
fn what_a_command_reads_is_not_written_over() {
    let scratch = Scratch::new();
    scratch.write("t.csv", TRACE);
    scratch.write("job.fio", JOB);
    scratch.onewrite("mkfs a.img --size 64M").ok();
    std::fs::hard_link(scratch.path("t.csv"), scratch.path("same.csv")).unwrap();
    for (command, file) in [
        ("cache t.csv --json ./t.csv", "t.csv"),
        ("cache t.csv --json same.csv", "t.csv"),
        ("cache t.csv --size 1%,10% --chart t.csv", "t.csv"),
        ("trace summarise t.csv --json t.csv", "t.csv"),
        ("trace convert t.csv same.csv", "t.csv"),
        ("trace draw t.csv t.csv", "t.csv"),
        ("run job.fio --json job.fio", "job.fio"),
        ("run job.fio --trace job.fio", "job.fio"),
        ("compare job.fio --html job.fio", "job.fio"),
        ("crash job.fio --json job.fio", "job.fio"),
        ("fsck -n a.img --json a.img", "a.img"),
    ] {
        kept(&scratch, command, file, "the command reads it");
    }
}

#[test]
fn an_image_is_only_replaced_by_force_and_never_by_a_report() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB);
    scratch.onewrite("mkfs a.img --size 64M").ok();
    std::fs::create_dir(scratch.path("out")).unwrap();
    std::fs::copy(scratch.path("a.img"), scratch.path("out/data.img")).unwrap();
    kept(&scratch, "run job.fio --json a.img", "a.img", "it holds an ext2, ext3 or ext4 file system");
    kept(&scratch, "run job.fio --image a.img", "a.img", "--force replaces it");
    kept(&scratch, "compare job.fio --modes ordered,data --images out", "out/data.img", "--force replaces it");
    assert!(!scratch.path("out/ordered.img").exists(), "nothing runs before all is known to be well");
    scratch.onewrite("run job.fio --image a.img --force").ok();
    assert!(scratch.onewrite("ls a.img").ok().contains("w.0.0"));
}

#[test]
fn each_output_has_a_file_of_its_own_that_can_be_made() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB);
    for command in ["run job.fio --json same --trace ./same", "probe sata-850pro --json same --chart same"] {
        assert!(scratch.onewrite(command).fails_with(2).contains("two outputs"), "{command}");
    }
    for command in ["trace convert job.fio no/x.csv", "run job.fio --json no/x.json", "mkfs no/a.img"] {
        scratch.onewrite(command).fails_with(2);
    }
    for command in ["run job.fio --trace -", "compare job.fio --html -"] {
        assert!(scratch.onewrite(command).fails_with(2).contains("./-"), "{command}");
    }
    assert_eq!(names(&scratch), ["job.fio"]);
}

/// Runs the program as a user without rights; `None`, with a message, if that is not possible.
fn as_nobody(scratch: &Scratch, arguments: &str) -> Option<(i32, String)> {
    let mut program = Command::new("setpriv");
    program.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_onewrite")]);
    match program.args(arguments.split_whitespace()).current_dir(scratch.as_path()).stdin(Stdio::null()).output() {
        Ok(output) if output.status.code() != Some(127) && output.status.code() != Some(126) => {
            Some((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned()))
        }
        other => {
            skipped!("setpriv: {other:?}");
            None
        }
    }
}

#[test]
fn a_place_without_permission_is_told_before_the_work() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let program = Path::new(env!("CARGO_BIN_EXE_onewrite"));
    if !program.ancestors().skip(1).all(|above| std::fs::metadata(above).is_ok_and(|found| found.mode_others_enter())) {
        skipped!("nobody but root may run {}", program.display());
        return;
    }
    std::fs::set_permissions(scratch.as_path(), PermissionsExt::from_mode(0o755)).unwrap();
    let Some((code, said)) = as_nobody(&scratch, "run varmail --operations 100 --json r.json") else { return };
    assert!(code == 3 && said.contains("cannot write r.json") && !said.contains("a second"), "{code}: {said}");
}

trait Enterable {
    fn mode_others_enter(&self) -> bool;
}

impl Enterable for std::fs::Metadata {
    fn mode_others_enter(&self) -> bool {
        std::os::unix::fs::PermissionsExt::mode(&self.permissions()) & 1 == 1
    }
}

#[test]
fn a_trace_is_compressed_as_its_name_says() {
    let scratch = Scratch::new();
    scratch.write("t.csv", TRACE);
    for (name, magic) in [("x.csv.xz", &b"\xfd7zXZ"[..]), ("x.csv.gz", b"\x1f\x8b"), ("x.csv.zst", b"\x28\xb5\x2f\xfd")]
    {
        scratch.onewrite(&format!("trace convert t.csv {name}")).ok();
        assert!(std::fs::read(scratch.path(name)).unwrap().starts_with(magic), "{name}");
        let from = |trace| scratch.onewrite(&format!("cache {trace} --policy lru --size 8192")).ok();
        assert_eq!(from(name).lines().last(), from("t.csv").lines().last(), "{name}");
    }
    assert!(scratch.onewrite("run varmail --operations 100 --trace x.zst").fails_with(2).contains("plain CSV"));
}

#[test]
fn a_tree_that_does_not_fit_is_told_what_does() {
    let scratch = Scratch::new();
    scratch.write("tree/large", vec![7; 30 << 20]);
    (0..300).for_each(|number| drop(scratch.write(&format!("tree/small-{number}"), "x")));
    let said = scratch.onewrite("mkfs a.img --size 24MiB --from tree").fails_with(2);
    assert!(said.contains("nothing was made"), "{said}");
    assert_eq!(names(&scratch), ["tree"]);
    let size = said.split_once("--size ").unwrap().1.split(' ').next().unwrap();
    scratch.onewrite(&format!("mkfs a.img --size {size} --from tree")).ok();
}

#[test]
fn a_size_that_is_no_multiple_of_a_page_is_rounded_down() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 33000000").ok();
    assert_eq!(std::fs::metadata(scratch.path("a.img")).unwrap().len(), 33_000_000 / 4096 * 4096);
    scratch.onewrite("mkfs a.img --size 33000000 --force").ok();
    scratch.write("empty", "");
    std::fs::create_dir(scratch.path("directory")).unwrap();
    for image in ["empty", "/dev/null"] {
        assert!(scratch.onewrite(&format!("ls {image}")).fails_with(2).contains("no image"), "{image}");
    }
    assert!(scratch.onewrite("tree directory").fails_with(2).contains("directory"));
}

#[test]
fn what_does_not_fit_on_the_host_is_not_left_half() {
    let scratch = Scratch::new();
    scratch.write(
        "tree/a",
        (0..3 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect::<Vec<_>>(),
    );
    let line = |number: u64| format!("w,{}\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24);
    scratch.write("t.csv", (0..400_000).map(line).collect::<String>());
    std::fs::create_dir(scratch.path("full")).unwrap();
    if scratch.other("mount", "-t tmpfs -o size=1M none full").is_none_or(|mounted| mounted.code() != 0) {
        skipped!("this machine does not mount file systems in memory");
        return;
    }
    let commands = [
        "mkfs full/a.img --size 64M --from tree",
        "trace convert t.csv full/x.csv.zst",
        "trace convert t.csv full/x.csv",
    ];
    let outcomes = commands.map(|command| (command, scratch.onewrite(command)));
    let left: Vec<_> = scratch.path("full").read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    scratch.other("umount", "full").unwrap().ok();
    for (command, outcome) in outcomes {
        assert!(outcome.code() == 3 && outcome.err().contains("No space left"), "{command}: {}", outcome.err());
    }
    assert!(left.is_empty(), "{left:?}");
}

/// `onewrite fsck IMAGE | head -1` in a script with `set -o pipefail`.
#[test]
fn a_result_is_told_to_whoever_reads_no_more() {
    let scratch = Scratch::new();
    for fs in ["ext4", "f2fs"] {
        scratch.onewrite(&format!("mkfs --fs {fs} {fs}.img --size 64M")).ok();
        assert_eq!(scratch.onewrite_unread(&format!("fsck {fs}.img")).code(), 0);
    }
    // The root of the one, the second checkpoint pack and the NAT of the other.
    for (image, from, length) in [("ext4.img", 4096, 4096 * 8), ("f2fs.img", 6 << 20, 20 << 20)] {
        let mut bytes = std::fs::read(scratch.path(image)).unwrap();
        bytes[from..from + length].fill(0x5a);
        scratch.write(image, bytes);
        let code = scratch.onewrite(&format!("fsck -n {image}")).code();
        assert!(code == 4 || code == 8, "{image}: {code}");
        for arguments in ["fsck -n", "fsck -n --json -"] {
            assert_eq!(scratch.onewrite_unread(&format!("{arguments} {image}")).code(), code, "{arguments} {image}");
        }
    }
    scratch.onewrite("mkfs a.img --size 64M").ok();
    assert_eq!(scratch.onewrite_unread("cp nothing a.img:/").code(), scratch.onewrite("cp nothing a.img:/").code());
    assert_eq!(scratch.onewrite_unread("tree a.img").code(), 0, "all that it does is print");
}

#[test]
fn an_output_that_takes_nothing_is_no_verdict_of_fsck() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs a.img --size 64M").ok();
    let full = |command: &str| {
        let script = format!("{} {command} a.img > /dev/full", env!("CARGO_BIN_EXE_onewrite"));
        std::process::Command::new("sh").args(["-c", &script]).current_dir(scratch.as_path()).output().unwrap()
    };
    assert_eq!((full("fsck -n").status.code(), full("tree").status.code()), (Some(8), Some(3)));
}
