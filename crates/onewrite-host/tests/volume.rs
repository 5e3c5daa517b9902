//! An image in this process, by blocking calls from many threads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{FileKind, FsError, NewNode, RenameManner};
use onewrite_host::{Volume, VolumeError, make_image};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// An image that mke2fs made. It is removed in the end.
struct Image(PathBuf);

impl Image {
    fn new() -> Image {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onewrite-volume-{}-{number}.img", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
        run(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4", "-b", "4096"]).arg(&path));
        Image(path)
    }

    fn open(&self, mode: Mode) -> Volume {
        Volume::open(&self.0, MountOptions::new(mode)).unwrap()
    }

    /// e2fsck finds nothing.
    fn check(&self) {
        run(Command::new("e2fsck").arg("-fn").arg(&self.0));
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
}

#[expect(clippy::disallowed_methods, reason = "callers of a volume are threads")]
fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
    std::thread::spawn(work)
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let image = Image::new();
    let volume = image.open(Mode::DataAsync);
    volume.create_directory("/d").unwrap();
    let file = volume.create("/d/f").unwrap();
    assert_eq!(file.append(b"hello ").unwrap(), 0);
    assert_eq!(file.append(b"world").unwrap(), 6);
    file.write_at(0, b"J").unwrap();
    volume.symlink("/link", "d/f").unwrap();
    volume.rename("/d/f", "/d/g", RenameManner::NoReplace).unwrap();
    volume.remove("/link").unwrap();
    volume.symlink("/d/link", "g").unwrap();
    drop(file);
    volume.close().unwrap();
    image.check();
    let volume = image.open(Mode::Ordered);
    assert_eq!(volume.open_file("/d/link").unwrap().read_at(0, 100).unwrap(), b"Jello world");
    assert_eq!(volume.metadata("/d/link").unwrap().kind, FileKind::Symlink);
    let entries = volume.read_directory("/d").unwrap().into_iter();
    let names: BTreeSet<String> = entries.map(|entry| String::from_utf8(entry.name).unwrap()).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["g", "link"]);
}

#[test]
fn an_open_file_lives_without_a_name() {
    let image = Image::new();
    let volume = image.open(Mode::Data);
    let file = volume.create("/f").unwrap();
    file.write_at(0, &[7; 8192]).unwrap();
    volume.remove("/f").unwrap();
    assert_eq!((file.read_at(4096, 10).unwrap(), file.metadata().unwrap().links), (vec![7; 10], 0));
    file.set_size(5).unwrap();
    assert_eq!(file.metadata().unwrap().size, 5);
    drop(file);
    volume.close().unwrap();
    image.check();
}

#[test]
fn files_without_a_name_are_gone_when_their_volume_closes_before_them() {
    for mode in [Mode::Ordered, Mode::Data, Mode::DataAsync] {
        let image = Image::new();
        let volume = image.open(mode);
        let free = volume.space().unwrap();
        let files = ["/a", "/b", "/c"].map(|path| volume.create(path).unwrap());
        for (file, path) in files.iter().zip(["/a", "/b", "/c"]) {
            file.write_at(0, &[7; 300_000]).unwrap();
            volume.remove(path).unwrap();
        }
        volume.clone().close().unwrap();
        image.check();
        drop(files);
        let space = image.open(mode).space().unwrap();
        assert_eq!((space.blocks_free, space.inodes_free), (free.blocks_free, free.inodes_free), "{mode:?}");
    }
}

#[test]
fn threads_share_a_volume_and_syncs_of_all_are_kept() {
    const THREADS: u8 = 8;
    let image = Image::new();
    let volume = image.open(Mode::DataAsync);
    let write = |number: u8| {
        let volume = volume.clone();
        in_thread(move || {
            let file = volume.create(format!("/f{number}")).unwrap();
            for turn in 0..50 {
                file.write_at(turn * 1000, &[number; 1000]).unwrap();
                file.sync_data().unwrap();
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(write).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for number in 0..THREADS {
        let file = volume.open_file(format!("/f{number}")).unwrap();
        assert_eq!(file.read_at(0, 100_000).unwrap(), vec![number; 50_000]);
    }
    drop(volume);
    image.check();
}

#[test]
fn errors_name_what_is_wrong_and_have_linuxs_numbers() {
    let image = Image::new();
    let volume = image.open(Mode::Ordered);
    let absent = volume.open_file("/absent").map(drop).unwrap_err();
    assert!(matches!(&absent, VolumeError::Fs(FsError::NotFound(_))) && absent.errno() == 2, "{absent}");
    volume.create_directory("/d").unwrap();
    assert_eq!(volume.create("/d").map(drop).unwrap_err().errno(), 17);
    assert_eq!(volume.remove("/d").unwrap_err().errno(), 21);
    volume.symlink("/a", "b").unwrap();
    volume.symlink("/b", "a").unwrap();
    assert_eq!(volume.open_file("/a").map(drop).unwrap_err().errno(), 40);
    let second = Volume::open(&image.0, MountOptions::new(Mode::Ordered)).map(drop).unwrap_err();
    assert!(second.to_string().contains("in use"), "{second}");
    let other = volume.clone();
    volume.close().unwrap();
    assert!(matches!(other.sync(), Err(VolumeError::Closed)));
    assert_eq!(other.close().unwrap_err().errno(), 9);
    assert!(Volume::open(Path::new("/nowhere/x"), MountOptions::new(Mode::Ordered)).is_err());
    image.check();
}

#[test]
fn a_read_only_volume_refuses_changes() {
    let image = Image::new();
    let before = std::fs::read(&image.0).unwrap();
    let options = MountOptions { read_only: true, ..MountOptions::new(Mode::Ordered) };
    let volume = Volume::open(&image.0, options).unwrap();
    assert_eq!(volume.create("/f").map(drop).unwrap_err().errno(), 30);
    assert_eq!(volume.read_directory("/").unwrap().len(), 1);
    volume.close().unwrap();
    assert!(std::fs::read(&image.0).unwrap() == before, "the image changed");
}

#[test]
fn an_image_is_made_once_and_opens() {
    let image = Image(std::env::temp_dir().join(format!("onewrite-volume-{}-made.img", std::process::id())));
    assert_eq!(make_image(&image.0, 4 << 20).unwrap_err().errno(), 22);
    assert!(!image.0.exists());
    make_image(&image.0, 8 << 20).unwrap();
    assert_eq!(make_image(&image.0, 8 << 20).unwrap_err().errno(), 17);
    image.open(Mode::DataAsync).close().unwrap();
    image.check();
}

#[test]
fn a_file_is_found_or_made_also_through_links() {
    let image = Image::new();
    let volume = image.open(Mode::Ordered);
    let node = NewNode { permissions: 0o600, ..NewNode::FILE };
    volume.symlink("/link", "file").unwrap();
    volume.open_or_create("/link", node).unwrap().append(b"one").unwrap();
    assert_eq!(volume.metadata("/file").unwrap().permissions, 0o600);
    assert_eq!(volume.open_or_create("/link", NewNode::FILE).unwrap().read_at(0, 9).unwrap(), b"one");
    assert_eq!(volume.metadata_followed("/link").unwrap().ino, volume.metadata("/file").unwrap().ino);
    volume.link("/file", b"/\xff").unwrap();
    assert_eq!((volume.metadata("/file").unwrap().links, volume.read_link("/link").unwrap()), (2, b"file".to_vec()));
    assert_eq!(volume.open_or_create("/absent/file", node).map(drop).unwrap_err().errno(), 2);
    assert_eq!(volume.create_as("/link", node).map(drop).unwrap_err().errno(), 17);
    assert_eq!(volume.read_link("/file").unwrap_err().errno(), 22);
    volume.close().unwrap();
    image.check();
}

#[test]
fn the_number_of_an_image_that_does_not_open_says_why() {
    let image = Image::new();
    let volume = image.open(Mode::Ordered);
    let number = |path: &Path| Volume::open(path, MountOptions::new(Mode::Ordered)).map(drop).unwrap_err().errno();
    assert_eq!((number(&image.0), number(Path::new("/nowhere/x"))), (16, 2));
    volume.close().unwrap();
}

#[path = "../examples/shared_log.rs"]
mod shared_log;

#[test]
fn the_example_of_threads_that_share_a_log_loses_no_line() {
    let image = std::env::temp_dir().join(format!("onewrite-shared-log-{}", std::process::id()));
    let _ = std::fs::remove_file(&image);
    assert_eq!(shared_log::run(&image).unwrap(), 100);
    let again = shared_log::run(&image);
    assert!(again.is_err_and(|error| error.to_string().contains(&*image.to_string_lossy())), "it exists now");
    std::fs::remove_file(&image).unwrap();
}
