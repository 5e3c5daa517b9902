//! Bytes and flushes for the same work on the kernel's ext4 and on ours, on images in the same directory.
//!
//! The kernel mounts its image on a loop device, whose `stat` is read before the work and after the unmount: so blocks on
//! their way home count. Ours mounts a copy of the image as a file, in wall time, because both commit and stamp by the
//! clock. Prints the table of `docs/kernel-parity.md`; needs root and e2fsprogs. `make kernel-parity`

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use onewrite_block::{Choices, Executor, HostProfile, Nanos, Runtime, Time};
use onewrite_device::FileDisk;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FsResult, Manner, NewNode, Position};

const FILE_PAGES: u64 = 4096;
const OVERWRITES: u64 = 2048;
const SMALL_FILES: u64 = 500;
/// Time between two overwrites: more than a tick of the clock that stamps files, so that each changes the inode. Without
/// it the figures tell how long an fsync of the two takes, not what it writes.
const PAUSE: Nanos = Nanos::from_millis(6);

/// What is done.
#[derive(Clone, Copy)]
enum Work {
    /// 4 KiB overwritten at random in 16 MiB, fsync after so many.
    Overwrite(u64),
    /// Small files created, one block appended, fsync.
    CreateAppend,
    /// 20 directories of 25 files of 1 to 64 KiB, then sync.
    TreeCopy,
}

const ALL: [(&str, Work); 5] = [
    ("overwrite, fsync every 1", Work::Overwrite(1)),
    ("overwrite, fsync every 8", Work::Overwrite(8)),
    ("overwrite, fsync every 128", Work::Overwrite(128)),
    ("create, append, fsync", Work::CreateAppend),
    ("tree copy, sync", Work::TreeCopy),
];

/// What a device was asked for.
#[derive(Clone, Copy)]
struct Cost {
    bytes: u64,
    flushes: u64,
}

fn run(program: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output().expect(program);
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
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
        Cost { bytes: fields[6] * 512, flushes: fields[15] }
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
    run("umount", &[mount.root.to_str().expect("UTF-8")]);
    let after = mount.cost();
    Cost { bytes: after.bytes - before.bytes, flushes: after.flushes - before.flushes }
}

fn work_on_kernel(root: &Path, work: Work) {
    let mut choices = Choices::new(1);
    match work {
        Work::Overwrite(every) => {
            #[expect(clippy::disallowed_methods, reason = "the kernel's clock is the wall's")]
            let wait = || std::thread::sleep(std::time::Duration::from_nanos(PAUSE.0));
            let file = File::options().write(true).open(root.join("file")).expect("file");
            for number in 1..=OVERWRITES {
                wait();
                file.write_all_at(&[number as u8; 4096], choices.below(FILE_PAGES) * 4096).expect("write");
                if number % every == 0 {
                    file.sync_all().expect("fsync");
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
        fs.unmount().await?;
        let after = door.device().counters();
        let bytes = after.host_write_bytes() - before.host_write_bytes();
        FsResult::Ok(Cost { bytes, flushes: after.flushes - before.flushes })
    });
    outcome.expect("nothing halts").expect("no error")
}

async fn work_on_ours(fs: &Ext4, runtime: &Runtime, work: Work) -> FsResult<()> {
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
    }
    Ok(())
}

fn main() {
    // `cargo test` runs benchmarks too, without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let directory = std::env::temp_dir().join(format!("onewrite-parity-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("directory");
    let (base, image) = (directory.join("base"), directory.join("image"));
    make_image(&base);
    println!("| work | mode | kernel MiB | ours MiB | ratio | kernel flushes | ours flushes | ratio |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for (name, work) in ALL {
        for (mode, options) in [(Mode::Ordered, "data=ordered"), (Mode::Data, "data=journal")] {
            std::fs::copy(&base, &image).expect("copy");
            let kernel = on_kernel(&image, work, options);
            std::fs::copy(&base, &image).expect("copy");
            let ours = on_ours(&image, work, mode);
            let mib = |cost: Cost| cost.bytes as f64 / (1024.0 * 1024.0);
            let ratio = |ours: u64, kernel: u64| ours as f64 / kernel.max(1) as f64;
            println!(
                "| {name} | {mode} | {:.1} | {:.1} | {:.2} | {} | {} | {:.2} |",
                mib(kernel),
                mib(ours),
                ratio(ours.bytes, kernel.bytes),
                kernel.flushes,
                ours.flushes,
                ratio(ours.flushes, kernel.flushes)
            );
        }
    }
    std::fs::remove_dir_all(&directory).expect("clean up");
}
