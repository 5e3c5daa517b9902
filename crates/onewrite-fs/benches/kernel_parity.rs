//! Bytes and flushes for the same work on the kernel's ext4 and on ours, on images in the same directory.
//!
//! The kernel mounts its image on a loop device. The bench reads the device's `stat` before the work and after the
//! unmount, so checkpoint writes count. Ours mounts a copy of the image as a file, in wall time, because both commit
//! and stamp by the clock. Prints the table of `docs/kernel-parity.md`; needs root and e2fsprogs. `make kernel-parity`

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use onewrite_block::{Choices, Executor, HostProfile, Nanos, Runtime, Time};
use onewrite_device::FileDisk;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Manner, NewNode, Position};

const FILE_PAGES: u64 = 4096;
const OVERWRITES: u64 = 2048;
const SMALL_FILES: u64 = 500;
/// Time between two overwrites: more than a tick of the clock that stamps files, so that each changes the inode.
/// Without it the figures show how long an fsync takes, not what it writes.
const PAUSE: Nanos = Nanos::from_millis(6);
/// What an fsync takes at least where overwrites follow each other at once: the same on both sides, so that as many
/// overwrites fall into a tick. The writer waits for what is left of it.
const FSYNC: Nanos = Nanos::from_millis(2);

/// The work to compare.
#[derive(Clone, Copy)]
enum Work {
    /// Overwrites 4 KiB at random places in 16 MiB, [`PAUSE`] apart; fsync after this many overwrites.
    Overwrite(u64),
    /// The same without a pause; an fsync takes at least [`FSYNC`].
    OverwriteAtOnce(u64),
    /// Creates small files, appends one block to each, fsync.
    CreateAppend,
    /// Creates 20 directories of 25 files of 1 to 64 KiB, then sync.
    TreeCopy,
    /// 16 parallel tasks, each with 60 mails of its own in one shared directory: see [`Mail`].
    Varmail,
}

const MAIL_TASKS: u64 = 16;
const MAILS: u64 = 60;
/// Rounds of each task, with two syncs each.
const MAIL_ROUNDS: u64 = 60;

/// One round of a varmail task, as in filebench. Deletes one mail; writes and syncs a new one; reads, appends to and
/// syncs one; reads one.
struct Mail {
    replaced: u64,
    new_bytes: u64,
    answered: u64,
    more_bytes: u64,
    read: u64,
}

impl Mail {
    fn rounds(task: u64) -> impl Iterator<Item = Mail> {
        let mut choices = Choices::new(1).stream("mail", task);
        (0..MAIL_ROUNDS).map(move |_| Mail {
            replaced: choices.below(MAILS),
            new_bytes: 1 + choices.below(32 * 1024),
            answered: choices.below(MAILS),
            more_bytes: 1 + choices.below(32 * 1024),
            read: choices.below(MAILS),
        })
    }

    fn name(task: u64, mail: u64) -> String {
        format!("mail-{task:02}-{mail:02}")
    }
}

const ALL: [(&str, Work); 8] = [
    ("overwrite, fsync every 1", Work::Overwrite(1)),
    ("overwrite, fsync every 8", Work::Overwrite(8)),
    ("overwrite, fsync every 128", Work::Overwrite(128)),
    ("overwrite at once, fsync every 1", Work::OverwriteAtOnce(1)),
    ("overwrite at once, fsync every 8", Work::OverwriteAtOnce(8)),
    ("create, append, fsync", Work::CreateAppend),
    ("tree copy, sync", Work::TreeCopy),
    ("varmail, 16 tasks", Work::Varmail),
];

/// Work of a device.
#[derive(Clone, Copy)]
struct Cost {
    bytes: u64,
    flushes: u64,
    commits: u64,
}

fn run(program: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output().expect(program);
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "the kernel's clock is the wall's")]
fn wait(span: Nanos) {
    std::thread::sleep(std::time::Duration::from_nanos(span.0));
}

#[expect(clippy::disallowed_methods, reason = "the kernel's clock is the wall's")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Bytes of the file `number` of the tree.
fn length(number: u64) -> u64 {
    1024 + (number * 7919) % (63 * 1024)
}

/// A new image with a file of 16 MiB, made by the kernel.
fn make_image(path: &Path) {
    let text = path.to_str().expect("UTF-8");
    let extended = "lazy_itable_init=0,lazy_journal_init=0";
    run("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096", "-E", extended, text, "256M"]);
    let mount = Loop::new(path, "data=ordered");
    std::fs::write(mount.root.join("file"), vec![1; FILE_PAGES as usize * 4096]).expect("file");
}

/// An image mounted by the kernel until dropped.
struct Loop {
    device: String,
    root: PathBuf,
}

impl Loop {
    fn new(image: &Path, options: &str) -> Loop {
        let device = run("losetup", &["-f", "--show", image.to_str().expect("UTF-8")]);
        let root = image.with_extension("mount");
        std::fs::create_dir_all(&root).expect("mount point");
        run("mount", &["-t", "ext4", "-o", options, &device, root.to_str().expect("UTF-8")]);
        Loop { device, root }
    }

    /// Sectors written and flushes since the device was attached.
    fn cost(&self) -> Cost {
        let name = self.device.trim_start_matches("/dev/");
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("stat");
        let fields: Vec<u64> = stat.split_whitespace().map(|field| field.parse().expect("a number")).collect();
        Cost { bytes: fields[6] * 512, flushes: fields[15], commits: self.commits() }
    }

    /// Transactions committed by the log; call it while the image is mounted.
    fn commits(&self) -> u64 {
        let name = self.device.trim_start_matches("/dev/");
        let info = std::fs::read_to_string(format!("/proc/fs/jbd2/{name}-8/info")).unwrap_or_default();
        info.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.root).output();
        let _ = Command::new("losetup").args(["-d", &self.device]).output();
    }
}

fn on_kernel(image: &Path, work: Work, options: &str) -> Cost {
    let mount = Loop::new(image, options);
    let before = mount.cost();
    work_on_kernel(&mount.root, work);
    let commits = mount.commits() - before.commits;
    run("umount", &[mount.root.to_str().expect("UTF-8")]);
    let after = mount.cost();
    Cost { bytes: after.bytes - before.bytes, flushes: after.flushes - before.flushes, commits }
}

fn work_on_kernel(root: &Path, work: Work) {
    let mut choices = Choices::new(1);
    match work {
        Work::Overwrite(every) => {
            let file = File::options().write(true).open(root.join("file")).expect("file");
            for number in 1..=OVERWRITES {
                wait(PAUSE);
                file.write_all_at(&[number as u8; 4096], choices.below(FILE_PAGES) * 4096).expect("write");
                if number % every == 0 {
                    file.sync_all().expect("fsync");
                }
            }
        }
        Work::OverwriteAtOnce(every) => {
            let file = File::options().write(true).open(root.join("file")).expect("file");
            for number in 1..=OVERWRITES {
                file.write_all_at(&[number as u8; 4096], choices.below(FILE_PAGES) * 4096).expect("write");
                if number % every == 0 {
                    let begin = now();
                    file.sync_all().expect("fsync");
                    wait(FSYNC.saturating_sub(Nanos(begin.elapsed().as_nanos() as u64)));
                }
            }
        }
        Work::CreateAppend => {
            for number in 0..SMALL_FILES {
                let file = File::create(root.join(format!("small-{number}"))).expect("file");
                file.write_all_at(&[number as u8; 4096], 0).expect("write");
                file.sync_all().expect("fsync");
            }
        }
        Work::TreeCopy => {
            for directory in 0..20 {
                let directory_path = root.join(format!("directory-{directory}"));
                std::fs::create_dir(&directory_path).expect("directory");
                for number in 0..25 {
                    let content = vec![number as u8; length(directory * 25 + number) as usize];
                    std::fs::write(directory_path.join(format!("file-{number}")), content).expect("file");
                }
            }
            let file = File::open(root).expect("root");
            rustix::fs::syncfs(file).expect("sync");
        }
        #[expect(clippy::disallowed_methods, reason = "the kernel serves many threads")]
        Work::Varmail => std::thread::scope(|scope| {
            (0..MAIL_TASKS).for_each(|task| drop(scope.spawn(move || mail_on_kernel(root, task))));
        }),
    }
}

fn mail_on_kernel(root: &Path, task: u64) {
    let path = |mail| root.join(Mail::name(task, mail));
    let append = |mail, bytes: u64| {
        let mut file = File::options().create(true).append(true).open(path(mail)).expect("mail");
        file.write_all(&vec![mail as u8; bytes as usize]).expect("write");
        file.sync_all().expect("fsync");
    };
    for round in Mail::rounds(task) {
        let _ = std::fs::remove_file(path(round.replaced));
        append(round.replaced, round.new_bytes);
        let _ = std::fs::read(path(round.answered));
        append(round.answered, round.more_bytes);
        let _ = std::fs::read(path(round.read));
    }
}

fn on_ours(image: &Path, work: Work, mode: Mode) -> Cost {
    let device = FileDisk::open(image).expect("image");
    let executor = Executor::new(Time::Wall { civil_start: Nanos::from_secs(1_700_000_000) }, HostProfile::default());
    let port = executor.runtime().attach(Box::new(device));
    let door = port.clone();
    let outcome = executor.block_on(async move {
        let fs = Rc::new(Ext4::mount(door.clone(), MountOptions::new(mode)).await?);
        let before = door.device().counters();
        work_on_ours(&fs, door.runtime(), work).await?;
        let commits = fs.counters().commits;
        fs.unmount().await?;
        let after = door.device().counters();
        let bytes = after.host_write_bytes() - before.host_write_bytes();
        FsResult::Ok(Cost { bytes, flushes: after.flushes - before.flushes, commits })
    });
    outcome.expect("nothing halts").expect("no error")
}

async fn work_on_ours(fs: &Rc<Ext4>, runtime: &Runtime, work: Work) -> FsResult<()> {
    let (root, mut choices) = (fs.root(), Choices::new(1));
    let write = async |ino, offset, length: u64, number: u64| {
        let bytes = vec![number as u8; length as usize];
        fs.write(ino, Position::At(offset), Content::Bytes(&bytes), Manner::default()).await
    };
    match work {
        Work::Overwrite(every) => {
            let file = fs.lookup(root, b"file").await?;
            for number in 1..=OVERWRITES {
                runtime.sleep(PAUSE).await;
                write(file, choices.below(FILE_PAGES) * 4096, 4096, number).await?;
                if number % every == 0 {
                    fs.fsync(file).await?;
                }
            }
        }
        Work::OverwriteAtOnce(every) => {
            let file = fs.lookup(root, b"file").await?;
            for number in 1..=OVERWRITES {
                write(file, choices.below(FILE_PAGES) * 4096, 4096, number).await?;
                if number % every == 0 {
                    let begin = runtime.now();
                    fs.fsync(file).await?;
                    runtime.sleep_until(begin + FSYNC).await;
                }
            }
        }
        Work::CreateAppend => {
            for number in 0..SMALL_FILES {
                let file = fs.create(root, format!("small-{number}").as_bytes(), NewNode::FILE).await?;
                write(file, 0, 4096, number).await?;
                fs.fsync(file).await?;
            }
        }
        Work::TreeCopy => {
            for number in 0..20 {
                let name = format!("directory-{number}");
                let directory = fs.create(root, name.as_bytes(), NewNode::DIRECTORY).await?;
                for file in 0..25 {
                    let ino = fs.create(directory, format!("file-{file}").as_bytes(), NewNode::FILE).await?;
                    write(ino, 0, length(number * 25 + file), file).await?;
                }
            }
            fs.sync().await?;
        }
        Work::Varmail => {
            let start = |task| runtime.start(mail_on_ours(Rc::clone(fs), task));
            let tasks: Vec<_> = (0..MAIL_TASKS).map(start).collect();
            for task in tasks {
                task.await?;
            }
        }
    }
    Ok(())
}

async fn mail_on_ours(fs: Rc<Ext4>, task: u64) -> FsResult<()> {
    let append = async |mail, bytes: u64| {
        let name = Mail::name(task, mail);
        let ino = match fs.lookup(fs.root(), name.as_bytes()).await {
            Ok(ino) => ino,
            Err(_) => fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?,
        };
        let bytes = vec![mail as u8; bytes as usize];
        fs.write(ino, Position::End, Content::Bytes(&bytes), Manner::default()).await?;
        fs.fsync(ino).await
    };
    let read = async |mail| {
        if let Ok(ino) = fs.lookup(fs.root(), Mail::name(task, mail).as_bytes()).await {
            let size = fs.attributes(ino).await?.size;
            fs.read(ino, 0, size, Manner::default()).await?;
        }
        FsResult::Ok(())
    };
    for round in Mail::rounds(task) {
        let _ = fs.unlink(fs.root(), Mail::name(task, round.replaced).as_bytes()).await;
        append(round.replaced, round.new_bytes).await?;
        read(round.answered).await?;
        append(round.answered, round.more_bytes).await?;
        read(round.read).await?;
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

fn ratio(ours: u64, kernel: u64) -> f64 {
    ours as f64 / kernel.max(1) as f64
}

/// Cost of one work for the kernel and for us.
struct Row {
    name: &'static str,
    mode: Mode,
    kernel: Cost,
    ours: Cost,
    /// Fragmented files in percent, as e2fsck counts them: the kernel's and ours.
    pieces: [String; 2],
}

fn print_totals(rows: &[Row]) {
    println!("| work | mode | kernel MiB | ours MiB | ratio | kernel flushes | ours flushes | ratio |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for Row { name, mode, kernel, ours, .. } in rows {
        let (bytes, flushes) = (ratio(ours.bytes, kernel.bytes), ratio(ours.flushes, kernel.flushes));
        let (kernel_mib, ours_mib) = (mib(kernel.bytes), mib(ours.bytes));
        print!("| {name} | {mode} | {kernel_mib:.1} | {ours_mib:.1} | {bytes:.2} ");
        println!("| {} | {} | {flushes:.2} |", kernel.flushes, ours.flushes);
    }
}

fn print_per_commit(rows: &[Row]) {
    println!(
        "| work | mode | kernel commits | ours | kernel KiB per commit | ours | kernel flushes per commit | ours |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for Row { name, mode, kernel, ours, .. } in rows {
        let kib = |cost: &Cost| cost.bytes as f64 / 1024.0 / cost.commits.max(1) as f64;
        let flushes = |cost: &Cost| ratio(cost.flushes, cost.commits);
        print!("| {name} | {mode} | {} | {} | {:.1} | {:.1} ", kernel.commits, ours.commits, kib(kernel), kib(ours));
        println!("| {:.2} | {:.2} |", flushes(kernel), flushes(ours));
    }
}

fn print_pieces(rows: &[Row]) {
    println!("| work | mode | kernel, files in pieces | ours |");
    println!("|---|---|---:|---:|");
    for Row { name, mode, pieces: [kernel, ours], .. } in rows {
        println!("| {name} | {mode} | {kernel} | {ours} |");
    }
}

/// The share of fragmented files that e2fsck prints. Fails if e2fsck finds a fault.
fn in_pieces(image: &Path) -> String {
    let said = run("e2fsck", &["-fn", image.to_str().expect("UTF-8")]);
    let share = said.rsplit_once("files (").and_then(|(_, rest)| rest.split_once(" non-contiguous"));
    share.expect("e2fsck tells how many").0.to_owned()
}

fn measure(base: &Path, image: &Path, name: &'static str, work: Work) -> Vec<Row> {
    let modes = [(Mode::Ordered, "data=ordered"), (Mode::Data, "data=journal")];
    let row = |(mode, options): (Mode, &str)| {
        std::fs::copy(base, image).expect("copy");
        let kernel = on_kernel(image, work, options);
        let of_kernel = in_pieces(image);
        std::fs::copy(base, image).expect("copy");
        let ours = on_ours(image, work, mode);
        Row { name, mode, kernel, ours, pieces: [of_kernel, in_pieces(image)] }
    };
    modes.map(row).into()
}

fn main() {
    // `cargo test` runs benchmarks too, without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let wanted = std::env::var("ONEWRITE_WORK").unwrap_or_default();
    let directory = std::env::temp_dir().join(format!("onewrite-parity-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("directory");
    let (base, image) = (directory.join("base"), directory.join("image"));
    make_image(&base);
    let works = ALL.into_iter().filter(|(name, _)| name.contains(&wanted));
    let rows: Vec<Row> = works.flat_map(|(name, work)| measure(&base, &image, name, work)).collect();
    print_totals(&rows);
    println!();
    print_per_commit(&rows);
    println!();
    print_pieces(&rows);
    std::fs::remove_dir_all(&directory).expect("clean up");
}
