//! Refuses images and disks in use; an interrupted command leaves nothing that looks complete.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use onewrite_testing::skipped;

use crate::support::{Outcome, Scratch, names};

/// A loop device, detached when dropped; `None`, with a message, if the machine has none.
struct LoopDevice(String);

impl LoopDevice {
    fn attach(scratch: &Scratch, image: &str) -> Option<LoopDevice> {
        let attached = scratch.other("losetup", &format!("-f --show {image}")).filter(|attached| attached.code() == 0);
        if attached.is_none() {
            skipped!("this machine attaches no loop devices");
        }
        Some(LoopDevice(attached?.ok().trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// A mount, unmounted when dropped; `None`, with a message, if images cannot be mounted.
struct Mounted(PathBuf);

impl Mounted {
    fn mount(scratch: &Scratch, options: &str, directory: &str) -> Option<Mounted> {
        let place = scratch.path(directory);
        std::fs::create_dir_all(&place).unwrap();
        if scratch.other("mount", &format!("{options} {directory}")).is_none_or(|mounted| mounted.code() != 0) {
            skipped!("this machine mounts no images");
            return None;
        }
        Some(Mounted(place))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        assert!(Command::new("umount").arg(&self.0).status().unwrap().success());
    }
}

fn refused(outcome: &Outcome, words: &[&str]) {
    let said = outcome.fails_with(3);
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn the_image_of_a_mounted_file_system_is_refused_by_whatever_name() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs m.img --size 64M").ok();
    scratch.write("tree/a", "alpha");
    scratch.write("job.fio", "[w]\nrw=write\nsize=1m\n");
    std::os::unix::fs::symlink("m.img", scratch.path("link.img")).unwrap();
    std::fs::hard_link(scratch.path("m.img"), scratch.path("hard.img")).unwrap();
    let Some(mounted) = Mounted::mount(&scratch, "-o loop m.img", "mnt") else { return };
    let place = mounted.0.to_str().unwrap();
    let commands = [
        "cp tree m.img:/zi",
        "cp tree link.img:/zi",
        "cp tree hard.img:/zi",
        "mkfs m.img --force",
        "run job.fio --device ./m.img --force",
        "compare job.fio --device ./m.img --force --modes ordered",
        "run varmail --image m.img",
        "probe ./m.img --force",
        "ls m.img",
        "cat m.img:/lost+found",
    ];
    for command in commands {
        refused(&scratch.onewrite(command), &["is the image behind /dev/loop", "mounted at", place, "umount"]);
    }
    assert!(scratch.onewrite("fsck -n m.img").fails_with(8).contains("mounted at"));
    // The kernel now gives a path for the file behind the loop device that no longer exists.
    std::fs::remove_file(scratch.path("m.img")).unwrap();
    refused(&scratch.onewrite("mkfs hard.img --force"), &["is the image behind /dev/loop", "mounted at"]);
    std::fs::rename(scratch.path("hard.img"), scratch.path("m.img")).unwrap();
    drop(mounted);
    assert!(scratch.onewrite("fsck m.img").ok().contains("clean"));
    scratch.onewrite("cp tree m.img:/zi").ok();
}

#[test]
fn a_mounted_or_claimed_disk_is_refused_whole_and_in_part() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs m.img --size 64M").ok();
    let Some(disk) = LoopDevice::attach(&scratch, "m.img") else { return };
    scratch.onewrite(&format!("ls {}", disk.0)).ok();
    scratch.onewrite("ls m.img").ok();
    let Some(mounted) = Mounted::mount(&scratch, &disk.0, "mnt") else { return };
    let place = mounted.0.to_str().unwrap();
    for command in ["mkfs DISK --force", "run varmail --device DISK --force", "probe DISK --force", "ls DISK"] {
        let command = command.replace("DISK", &disk.0);
        refused(&scratch.onewrite(&command), &["mounted at", place, "umount"]);
    }
    drop(mounted);
    scratch.onewrite(&format!("mkfs {} --force", disk.0)).ok();
    assert!(scratch.onewrite("fsck -n m.img").ok().contains("clean"));
}

#[test]
fn a_disk_with_a_mounted_partition_is_refused() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs part.img --size 32M").ok();
    let mut disk = std::fs::File::create(scratch.path("disk.img")).unwrap();
    disk.set_len(40 << 20).unwrap();
    disk.seek(SeekFrom::Start(1 << 20)).unwrap();
    disk.write_all(&std::fs::read(scratch.path("part.img")).unwrap()).unwrap();
    // One primary partition of type Linux, sectors 2048 to 67583.
    let mut entry = [0_u8; 66];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&2048_u32.to_le_bytes());
    entry[12..16].copy_from_slice(&65536_u32.to_le_bytes());
    entry[64..].copy_from_slice(&[0x55, 0xaa]);
    disk.seek(SeekFrom::Start(446)).unwrap();
    disk.write_all(&entry).unwrap();
    drop(disk);
    let Some(whole) = LoopDevice::attach(&scratch, "-P disk.img") else { return };
    let part = format!("{}p1", whole.0);
    if !Path::new(&part).exists() {
        skipped!("this machine makes no device for a partition of a loop device");
        return;
    }
    let Some(_mounted) = Mounted::mount(&scratch, &part, "mnt") else { return };
    refused(&scratch.onewrite(&format!("mkfs {} --force", whole.0)), &["partition", "mounted at"]);
    refused(&scratch.onewrite("mkfs disk.img --force"), &["behind /dev/loop", "partition", "mounted at"]);
    refused(&scratch.onewrite(&format!("ls {part}")), &["mounted at"]);
}

/// A command that takes every signal as usual, even if the tests run where some are ignored (nohup, `&` in a script).
/// The process keeps its number: `env` becomes the program.
fn with_default_signals(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command
}

/// The program, running on its own, with its standard error in a pipe.
struct Started(Child);

impl Started {
    fn start(scratch: &Scratch, arguments: &str) -> Started {
        let mut program = with_default_signals(env!("CARGO_BIN_EXE_onewrite"));
        program.args(arguments.split_whitespace()).current_dir(scratch.as_path());
        Started(program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Exit status and standard error.
    fn end(&mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap(), said)
    }

    /// Waits until `is_so`; the program must not end before.
    #[expect(clippy::disallowed_methods, reason = "another process is waited for")]
    fn wait_until(&mut self, is_so: impl Fn() -> bool) {
        while !is_so() {
            if let Some(status) = self.0.try_wait().unwrap() {
                panic!("it ended too early: {status}: {}", self.end().1);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes a file without holes.
fn bulk(scratch: &Scratch, name: &str, mib: usize) {
    let block: Vec<u8> = (0..1 << 20).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect();
    scratch.write(name, block.repeat(mib));
}

fn disk_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.blocks() * 512)
}

/// Bytes that a process has written so far, as the kernel counts them.
fn bytes_written(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let count = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    count.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn of_two_that_write_one_is_refused_by_the_name_of_the_other() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs i.img --size 1G").ok();
    bulk(&scratch, "one", 256);
    scratch.write("two", "small");
    let before = disk_bytes(&scratch.path("i.img"));
    let mut first = Started::start(&scratch, "cp one i.img:/one");
    first.wait_until(|| disk_bytes(&scratch.path("i.img")) > before);
    first.signal("-STOP");
    let holder = format!("in use by process {} (onewrite)", first.0.id());
    for command in ["cp two i.img:/two", "mkfs i.img --force", "ls i.img", "run varmail --device ./i.img --force"] {
        refused(&scratch.onewrite(command), &[&holder, "wait or stop it"]);
    }
    first.signal("-CONT");
    assert!(first.end().0.success());
    scratch.onewrite("cp two i.img:/two").ok();
    assert_eq!(scratch.onewrite("ls i.img").ok(), "lost+found\none\ntwo\n");
}

#[test]
fn readers_stand_beside_each_other_and_keep_writers_out() {
    let scratch = Scratch::new();
    bulk(&scratch, "tree/one", 4);
    scratch.onewrite("mkfs i.img --size 64M --from tree").ok();
    std::fs::set_permissions(scratch.path("i.img"), std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_onewrite"));
    program.args(["cat", "i.img:/one"]).current_dir(scratch.as_path());
    // Its pipe is full after 64 KiB, so the program keeps the file open for reading.
    let mut reader = Started(program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut byte = [0];
    reader.0.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    assert_eq!(scratch.onewrite("ls i.img").ok(), "lost+found\none\n");
    refused(&scratch.onewrite("cp i.img i.img:/two"), &["in use by", "(onewrite)"]);
}

#[test]
fn who_reads_an_image_keeps_writers_of_its_loop_device_out() {
    let scratch = Scratch::new();
    bulk(&scratch, "tree/one", 4);
    scratch.onewrite("mkfs i.img --size 64M --from tree").ok();
    let Some(disk) = LoopDevice::attach(&scratch, "i.img") else { return };
    let mut program = Command::new(env!("CARGO_BIN_EXE_onewrite"));
    program.args(["cat", "i.img:/one"]).current_dir(scratch.as_path());
    let mut reader = Started(program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    reader.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    refused(&scratch.onewrite(&format!("mkdir {}:/new", disk.0)), &["in use by", "(onewrite)"]);
}

#[test]
fn an_image_that_became_a_loop_device_meanwhile_is_not_said_to_be_well() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs i.img --size 1G").ok();
    bulk(&scratch, "one", 256);
    let before = disk_bytes(&scratch.path("i.img"));
    let mut copy = Started::start(&scratch, "cp one i.img:/one");
    copy.wait_until(|| disk_bytes(&scratch.path("i.img")) > before);
    copy.signal("-STOP");
    let Some(disk) = LoopDevice::attach(&scratch, "i.img") else { return };
    copy.signal("-CONT");
    let (status, said) = copy.end();
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains(&disk.0) && said.contains("may be lost") && said.contains("losetup -d"), "{said}");
}

#[test]
fn a_write_protected_device_is_read_and_not_changed() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs i.img --size 64M").ok();
    let Some(disk) = LoopDevice::attach(&scratch, "-r i.img") else { return };
    refused(&scratch.onewrite(&format!("mkdir {}:/d", disk.0)), &[&disk.0, "write-protected", "blockdev --setrw"]);
    refused(&scratch.onewrite(&format!("mkfs --force {}", disk.0)), &["write-protected"]);
    scratch.onewrite(&format!("ls {}", disk.0)).ok();
}

#[test]
fn an_interrupted_image_is_not_there_and_its_signal_is_told() {
    let scratch = Scratch::new();
    bulk(&scratch, "tree/one", 300);
    for (signal, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1), ("-KILL", 9)] {
        let mut made = Started::start(&scratch, "mkfs new.img --size 1G --from tree");
        let temporary = format!(".new.img.onewrite-{}", made.0.id());
        made.wait_until(|| disk_bytes(&scratch.path(&temporary)) > 16 << 20);
        assert!(!scratch.path("new.img").exists());
        made.signal(signal);
        assert_eq!(made.end().0.signal(), Some(number), "{signal}");
        assert!(!scratch.path("new.img").exists(), "{signal}");
        if signal == "-KILL" {
            std::fs::remove_file(scratch.path(&temporary)).unwrap();
        }
        assert_eq!(names(&scratch), ["tree"], "{signal}");
    }
}

#[test]
fn an_image_made_in_place_shows_only_when_it_is_whole() {
    let scratch = Scratch::new();
    bulk(&scratch, "tree/one", 300);
    scratch.onewrite("mkfs a.img --size 1G").ok();
    for signal in ["-INT", "-KILL"] {
        let before = disk_bytes(&scratch.path("a.img"));
        let mut made = Started::start(&scratch, "mkfs a.img --force --from tree");
        // More than the 32 MiB of the journal, which are written first.
        made.wait_until(|| disk_bytes(&scratch.path("a.img")) > before + (64 << 20));
        made.signal(signal);
        assert!(!made.end().0.success());
        assert!(scratch.onewrite("ls a.img").fails_with(2).contains("a.img"), "{signal}");
        scratch.other("truncate", "-s 0 a.img").unwrap().ok();
        scratch.other("truncate", "-s 1G a.img").unwrap().ok();
    }
    scratch.onewrite("mkfs a.img --from tree").ok();
    assert_eq!(scratch.onewrite("ls a.img").ok(), "lost+found\none\n");
    if let Some(judged) = scratch.other("e2fsck", "-fn a.img") {
        judged.ok();
    }
}

#[test]
fn a_copy_in_that_is_interrupted_leaves_a_clean_image_without_the_half_file() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs i.img --size 1G").ok();
    scratch.write("a", "alpha");
    bulk(&scratch, "b", 300);
    let before = disk_bytes(&scratch.path("i.img"));
    let mut copy = Started::start(&scratch, "cp a b i.img:/");
    copy.wait_until(|| disk_bytes(&scratch.path("i.img")) > before + (16 << 20));
    copy.signal("-INT");
    let (status, said) = copy.end();
    assert_eq!(status.signal(), Some(2), "{said}");
    assert!(said.contains("stopped"), "{said}");
    let listed = scratch.onewrite("ls i.img");
    assert_eq!((listed.ok().as_str(), listed.err().as_str()), ("a\nlost+found\n", ""), "no log is left");
    if let Some(judged) = scratch.other("e2fsck", "-fn i.img") {
        judged.ok();
    }
}

#[test]
fn a_copy_out_that_is_interrupted_leaves_no_half_file() {
    let scratch = Scratch::new();
    bulk(&scratch, "tree/b", 300);
    scratch.write("tree/a", "alpha");
    scratch.onewrite("mkfs i.img --size 1G --from tree").ok();
    std::fs::create_dir(scratch.path("out")).unwrap();
    scratch.write("out/b", "old");
    for (signal, number) in [("-TERM", 15), ("-KILL", 9)] {
        let mut copy = Started::start(&scratch, "cp i.img:/b out");
        let pid = copy.0.id();
        copy.wait_until(|| bytes_written(pid) > 16 << 20);
        copy.signal(signal);
        assert_eq!(copy.end().0.signal(), Some(number));
        assert_eq!(std::fs::read_to_string(scratch.path("out/b")).unwrap(), "old");
        assert_eq!(std::fs::read_dir(scratch.path("out")).unwrap().count(), 1, "{signal}");
    }
}

#[test]
fn an_interrupted_run_leaves_none_of_its_files() {
    let scratch = Scratch::new();
    let files = "--trace a.csv --page-trace b.csv.zst --json c.json --image d.img";
    let mut run =
        Started::start(&scratch, &format!("run varmail --operations 100000000 --files 50 --size 256M {files}"));
    let temporary = scratch.path(&format!(".a.csv.onewrite-{}", run.0.id()));
    run.wait_until(|| disk_bytes(&temporary) > 1 << 16);
    run.signal("-INT");
    assert_eq!(run.end().0.signal(), Some(2));
    assert!(names(&scratch).is_empty(), "{:?}", names(&scratch));
    let mut run =
        Started::start(&scratch, "run varmail --operations 100000000 --files 50 --size 256M --device ./new.img");
    let temporary = scratch.path(&format!(".new.img.onewrite-{}", run.0.id()));
    run.wait_until(|| disk_bytes(&temporary) > 1 << 20);
    run.signal("-TERM");
    assert_eq!(run.end().0.signal(), Some(15));
    assert!(names(&scratch).is_empty(), "{:?}", names(&scratch));
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let scratch = Scratch::new();
    let program = env!("CARGO_BIN_EXE_onewrite");
    let script =
        format!("trap '' HUP; exec {program} run varmail --operations 100000000 --files 50 --size 256M --trace a.csv");
    let mut shell = with_default_signals("bash");
    shell.args(["-c", &script]).current_dir(scratch.as_path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = Started(shell.spawn().unwrap());
    let temporary = scratch.path(&format!(".a.csv.onewrite-{}", run.0.id()));
    run.wait_until(|| disk_bytes(&temporary) > 1 << 16);
    run.signal("-HUP");
    let before = disk_bytes(&temporary);
    run.wait_until(|| disk_bytes(&temporary) > before);
    run.signal("-INT");
    assert_eq!(run.end().0.signal(), Some(2));
}

#[test]
fn a_source_that_cannot_be_read_leaves_nothing_empty() {
    let scratch = Scratch::new();
    scratch.onewrite("mkfs i.img --size 64M").ok();
    // Reading from address 0 of a process fails with EIO, for root too.
    let copied = scratch.onewrite("cp /proc/self/mem i.img:/memory");
    assert_ne!(copied.code(), 0, "{}", copied.out());
    assert_eq!(scratch.onewrite("ls i.img").ok(), "lost+found\n");
    if let Some(judged) = scratch.other("e2fsck", "-fn i.img") {
        judged.ok();
    }
}

#[test]
fn codes_tell_promises_input_and_the_machine_apart() {
    let scratch = Scratch::new();
    scratch.write("bad.fio", "[a]\nrw=sideways\n");
    scratch.write("bad.csv", "r,1\nw,two\n");
    scratch.write("bad.toml", "name = \n");
    scratch.write("job.fio", "[a]\nsize=1m\n");
    scratch.onewrite("mkfs i.img --size 64M").ok();
    scratch.write("noise.img", vec![7; 1 << 20]);
    let crash = ["crash", "script:create /a; write /a 0 9000 1; fsync /a", "--e2fsck-every", "0"];
    scratch.onewrite_with(&crash).ok();
    let input = [
        "run bad.fio",
        "run no.fio",
        "run job.fio --mode no",
        "run job.fio --no-such-option",
        "cache bad.csv --policy lru",
        "device bad.toml",
        "device no.toml",
        "ls noise.img",
        "ls no.img",
        "cat i.img:/no",
        "mkfs small.img --size 16k",
    ];
    for command in input {
        scratch.onewrite(command).fails_with(2);
    }
    scratch.onewrite("cp i.img:/no .").fails_with(1);
    let machine = ["run job.fio --json /dev/full", "run job.fio --trace /dev/full"];
    for command in machine {
        scratch.onewrite(command).fails_with(3);
    }
    let help = scratch.onewrite("--help").ok();
    assert!(["  0  done", "  1  ", "  2  usage", "  3  the machine"].iter().all(|code| help.contains(code)), "{help}");
}

#[test]
fn a_row_that_agrees_is_no_failure() {
    let scratch = Scratch::new();
    assert!(scratch.onewrite("paper afs-blocks-oj").ok().contains("agrees"));
}

#[test]
fn a_profile_in_a_file_is_shown_and_measured_and_its_faults_have_lines() {
    let scratch = Scratch::new();
    let profile = include_str!("../../../onewrite-device/profiles/ideal.toml");
    scratch.write("mine.toml", profile);
    let shown = scratch.onewrite("device mine.toml --size 64MiB").ok();
    assert!(shown.contains("mine.toml") && shown.contains("a power cut") && shown.contains("random write"), "{shown}");
    let measured = scratch.onewrite("device mine.toml --size 64MiB --json -").ok();
    let built_in = scratch.onewrite("device ideal --size 64MiB --json -").ok();
    assert_eq!(measured.replace("mine.toml", "ideal"), built_in);
    scratch.write("bad.toml", format!("{profile}\nnonsense = \n"));
    let line = format!("line {}", profile.lines().count() + 2);
    let said = scratch.onewrite("device bad.toml").fails_with(2);
    assert!(said.contains("bad.toml") && said.contains(&line), "{said}");
}

#[test]
fn no_escape_sequence_of_an_input_reaches_the_terminal() {
    let scratch = Scratch::new();
    let evil = "\x1b]0;owned\x07\u{9b}31m";
    scratch.write("evil.fio", format!("[a]\nsize=1m\n{evil}=1\n"));
    scratch.write("value.fio", format!("[a]\nsize={evil}\n"));
    scratch.write("evil.csv", format!("r,1\n{evil}\n"));
    scratch.write("evil.toml", format!("{evil} = 1\n"));
    let name = format!("{evil}.img");
    let commands: [&[&str]; 7] = [
        &["run", "evil.fio"],
        &["run", "value.fio"],
        &["cache", "evil.csv", "--format", "own", "--policy", "lru"],
        &["device", "evil.toml"],
        &["run", "varmail", "--host", "evil.toml"],
        &["ls", &name],
        &["run", "varmail", "--mode", evil],
    ];
    for command in commands {
        let said = scratch.onewrite_with(command).fails_with(2);
        let is_bare = |letter: char| letter.is_control() && letter != '\n';
        assert!(!said.contains(is_bare) && said.contains("033"), "{command:?}: {said:?}");
    }
}

#[test]
fn quiet_leaves_remarks_out_and_results_in() {
    let scratch = Scratch::new();
    let run = "run varmail --operations 500 --files 100";
    let (loud, quiet) = (scratch.onewrite(run), scratch.onewrite(&format!("--quiet {run}")));
    assert!(!loud.err().is_empty());
    assert_eq!((quiet.ok(), quiet.err().as_str()), (loud.ok(), ""));
    assert!(scratch.onewrite("run no.fio -q").fails_with(2).contains("no.fio"));
}

#[test]
fn a_job_and_a_trace_come_from_standard_input() {
    let scratch = Scratch::new();
    let job = b"[w]\nrw=randwrite\nbs=16k\nsize=4m\n";
    let run = scratch.onewrite_fed("run - --fs raw --device ideal --size 64M --json -", job).ok();
    let json: serde_json::Value = serde_json::from_str(&run).unwrap();
    assert_eq!(json["jobs"][0]["write"]["total_ios"], 256);
    assert!(scratch.onewrite_fed("run -", b"[w]\nno=1\n").fails_with(2).contains("standard input:2"));
    scratch.write("t.csv", "r,1\nw,2\nr,1\n".repeat(100));
    scratch.onewrite("trace convert t.csv t.csv.zst --to pages").ok();
    for name in ["t.csv", "t.csv.zst"] {
        let trace = std::fs::read(scratch.path(name)).unwrap();
        let piped = scratch.onewrite_fed("cache - --policy lru,clock", &trace).ok();
        assert_eq!(piped, scratch.onewrite(&format!("cache {name} --policy lru,clock")).ok());
    }
    let trace = std::fs::read(scratch.path("t.csv")).unwrap();
    scratch.onewrite_fed("trace cut - cut.csv --take 5 --to pages", &trace).ok();
    assert_eq!(std::fs::read_to_string(scratch.path("cut.csv")).unwrap().lines().count(), 5);
    assert!(scratch.onewrite("trace summarise - -").fails_with(2).contains("once"));
}

/// The output of a command line on a terminal; `None`, with a message, without util-linux's `script`.
fn on_a_terminal(scratch: &Scratch, arguments: &str) -> Option<String> {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_onewrite"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").current_dir(scratch.as_path()).stdin(Stdio::null());
    match script.output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            skipped!("script: {error}");
            None
        }
    }
}

#[test]
fn a_terminal_sees_the_time_left_and_no_sequence_of_a_name() {
    let scratch = Scratch::new();
    bulk(&scratch, "tree/one", 300);
    let Some(run) = on_a_terminal(&scratch, "run varmail --operations 400000 --files 100") else { return };
    assert!(run.contains("%, ") && run.contains(" left; "), "{run}");
    let made = on_a_terminal(&scratch, "mkfs '\x1b]0;owned\x07.img' --size 1G --from tree").unwrap();
    assert!(made.contains("\\033]0;owned\\007.img: ext4") && !made.contains("\x1b]0;"), "{made:?}");
    assert!(made.contains("MiB of ") && made.contains(" left"), "{made:?}");
    scratch.onewrite("mkfs a.img --size 2G").ok();
    for copy in ["cp tree a.img:/again", "cp a.img:/again out", "cp a.img:/again a.img:/third"] {
        let copied = on_a_terminal(&scratch, copy).unwrap();
        assert!(copied.contains(" of 300.00 MiB, ") && copied.contains(" left"), "{copy}: {copied:?}");
    }
    let quiet = on_a_terminal(&scratch, "-q run varmail --operations 400000 --files 100").unwrap();
    assert!(!quiet.contains(" left") && quiet.contains("varmail"), "{quiet}");
}

#[test]
fn a_terminal_sees_what_is_done_before_the_first_operation_and_how_far_it_is() {
    let scratch = Scratch::new();
    scratch.write("read.fio", "[r]\nrw=read\nsize=512m\nio_size=4k\n");
    let Some(run) = on_a_terminal(&scratch, "run read.fio --age filled") else { return };
    let parts = ["making the device filled (--age)", "laying out files: 0 of 1, ", " of 512.00 MiB"];
    assert!(parts.iter().all(|part| run.contains(part)), "{run}");
    let small = "compare varmail --operations 200 --files 50 --size 128M --modes data --cuts 40";
    let cuts = on_a_terminal(&scratch, small).unwrap();
    assert!(cuts.contains("varmail with power cuts") && cuts.contains(" of 40 cuts, "), "{cuts}");
    scratch.write("own.csv", "w,1\nw,2\nr,3\n");
    let aged = on_a_terminal(&scratch, "cache own.csv --policy lru --device sata-850pro --age 1GiB").unwrap();
    assert!(aged.contains("cache: aging the device") && aged.contains(" of 262,144 pages, "), "{aged}");
    let crash = "crash random:60 --mode data --states 300 --device sata-850pro --e2fsck-every 0";
    let crash = on_a_terminal(&scratch, crash).unwrap();
    assert!(crash.contains(" judged ") && crash.contains(" of 300 states, "), "{crash}");
}

#[test]
fn a_copy_in_that_is_killed_leaves_no_name_without_its_content() {
    let scratch = Scratch::new();
    for file in 0..12_000 {
        scratch.write(&format!("tree/{file:05}"), vec![b'x'; 1 + file % 3_000]);
    }
    // The log is small, so that names are committed long before the copy ends.
    scratch.onewrite("mkfs i.img --size 1G --journal-size 4MiB").ok();
    let before = disk_bytes(&scratch.path("i.img"));
    let mut copying = Started::start(&scratch, "cp tree i.img:/");
    copying.wait_until(|| disk_bytes(&scratch.path("i.img")) > before + (16 << 20));
    copying.signal("-KILL");
    assert!(!copying.end().0.success());
    scratch.onewrite("fsck i.img");
    if let Some(judged) = scratch.other("e2fsck", "-fn i.img") {
        judged.ok();
    }
    scratch.onewrite("cp i.img:/tree out").ok();
    let files: Vec<_> = std::fs::read_dir(scratch.path("out")).unwrap().map(|entry| entry.unwrap()).collect();
    assert!(files.len() > 100, "{} names came through the log", files.len());
    let is_empty = |file: &std::fs::DirEntry| file.metadata().unwrap().len() == 0;
    let empty = files.iter().filter(|file| is_empty(file) && file.file_name() != ".onewrite.part").count();
    assert_eq!(empty, 0, "of {} files", files.len());
}
