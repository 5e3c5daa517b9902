//! Content: programs write and read it in every way, and find it again after the next mount.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};

use crate::support::{Mounted, text};

const O_DIRECT: i32 = 0o40_000;

fn file(place: &Mounted, name: &str) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(place.at(name)).unwrap()
}

fn page(byte: u8) -> Vec<u8> {
    vec![byte; 4096]
}

#[test]
fn fallocate_does_what_linux_says_in_each_of_its_modes() {
    let Some(mut place) = Mounted::new(128, "") else { return };
    let one = file(&place, "f");
    let read = |offset: u64| {
        let mut bytes = [0; 4096];
        one.read_exact_at(&mut bytes, offset).unwrap();
        bytes.to_vec()
    };
    (0..4).for_each(|index| one.write_all_at(&page(index as u8 + 1), index * 4096).unwrap());
    fallocate(&one, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    let (size, sectors) = (one.metadata().unwrap().size(), one.metadata().unwrap().blocks());
    assert!(size == 4 * 4096 && sectors >= 2048, "{size} bytes, {sectors} sectors");
    fallocate(&one, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, 4096).unwrap();
    assert_eq!((read(0), read(4096), read(8192)), (page(1), page(0), page(3)));
    fallocate(&one, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 3 * 4096, 8 * 4096).unwrap();
    assert_eq!((read(3 * 4096), one.metadata().unwrap().size()), (page(0), 4 * 4096));
    fallocate(&one, FallocateFlags::ZERO_RANGE, 8192, 4 * 4096).unwrap();
    assert_eq!((read(8192), one.metadata().unwrap().size()), (page(0), 6 * 4096));
    fallocate(&one, FallocateFlags::empty(), 0, 2 << 20).unwrap();
    assert_eq!(one.metadata().unwrap().size(), 2 << 20);
    let collapsed = fallocate(&one, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(collapsed, Err(rustix::io::Errno::OPNOTSUPP), "the kernel's FUSE has no such request");
    drop(one);
    place.unmount();
}

#[test]
fn holes_are_found_and_ranges_copied() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    let (one, two) = (file(&place, "one"), file(&place, "two"));
    one.set_len(1 << 20).unwrap();
    one.write_all_at(&page(5), 40_960).unwrap();
    assert_eq!(seek(&one, SeekFrom::Data(0)), Ok(40_960));
    assert_eq!(seek(&one, SeekFrom::Hole(40_960)), Ok(45_056));
    assert_eq!(seek(&one, SeekFrom::Data(50_000)), Err(rustix::io::Errno::NXIO));
    let (mut from, mut to) = (40_000, 100);
    let copied = copy_file_range(&one, Some(&mut from), &two, Some(&mut to), 6000).unwrap();
    assert_eq!((copied, two.metadata().unwrap().size()), (6000, 6100));
    let mut bytes = [0; 6100];
    two.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes[..1060].iter().all(|byte| *byte == 0) && bytes[1060..5156].iter().all(|byte| *byte == 5));
    drop((one, two));
    place.unmount();
}

#[test]
fn appends_of_two_writers_lie_behind_each_other() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    let append = || OpenOptions::new().append(true).create(true).open(place.at("f")).unwrap();
    let (mut one, mut two) = (append(), append());
    for _ in 0..100 {
        one.write_all(b"one").unwrap();
        two.write_all(b"four").unwrap();
    }
    assert_eq!(fs::read_to_string(place.at("f")).unwrap(), "onefour".repeat(100));
    drop((one, two));
    place.unmount();
}

#[test]
fn direct_access_of_any_alignment_and_buffered_access_see_the_same_bytes() {
    for mode in ["ordered", "data+async"] {
        let Some(mut place) = Mounted::new(64, &format!("data={mode}")) else { return };
        let buffered = file(&place, "f");
        let direct = File::options().read(true).write(true).custom_flags(O_DIRECT).open(place.at("f")).unwrap();
        buffered.write_all_at(&page(1).repeat(4), 0).unwrap();
        direct.write_all_at(&page(2), 4096).unwrap();
        direct.write_all_at(&[3; 512], 512).unwrap();
        let mut bytes = vec![0; 4 * 4096];
        buffered.read_exact_at(&mut bytes, 0).unwrap();
        let expected = |place: usize| match place {
            512..1024 => 3,
            4096..8192 => 2,
            _ => 1,
        };
        assert!((0..bytes.len()).all(|place| bytes[place] == expected(place)), "{mode}");
        buffered.write_all_at(&page(4), 8192).unwrap();
        direct.read_exact_at(&mut bytes[..4096], 8192).unwrap();
        assert_eq!(&bytes[..4096], page(4), "{mode}");
        drop((buffered, direct));
        place.unmount();
    }
}

#[test]
fn a_store_to_a_mapping_is_there_after_the_next_mount() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    let script = "import mmap, os
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
one = mmap.mmap(fd, 1 << 20)
one[5000:5005] = b'hello'
assert os.pread(fd, 5, 5000) == b'hello'
os.pwrite(fd, b'J', 5000)
assert one[5000:5005] == b'Jello'
";
    let Some(done) = place.run("python3", &["-c", script]) else { return };
    text(&done);
    place.unmount();
    place = place.mounted("").unwrap();
    assert_eq!(&fs::read(place.at("f")).unwrap()[5000..5005], b"Jello");
    place.unmount();
}

#[test]
fn a_full_file_system_refuses_and_goes_on() {
    let Some(mut place) = Mounted::new(16, "") else { return };
    let mut file = File::create(place.at("big")).unwrap();
    let written = (0..64).map_while(|_| file.write_all(&vec![9; 1 << 20]).ok()).count();
    assert!(written < 16, "{written} MiB went into 16");
    let error = file.write_all(&vec![9; 1 << 20]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(28), "{error}");
    drop(file);
    fs::remove_file(place.at("big")).unwrap();
    let again = (0..500).any(|_| {
        crate::support::pause(20);
        fs::write(place.at("again"), vec![1; 2 << 20]).is_ok()
    });
    assert!(again, "the space did not come back");
    place.unmount();
}

#[test]
fn a_write_that_finds_room_for_a_part_says_how_much() {
    for place in [Mounted::unmounted(16), Mounted::unmounted_f2fs(64)] {
        let Some(place) = place else { return };
        let mut place = place.mounted("").unwrap();
        let mut file = File::options().append(true).create(true).open(place.at("f")).unwrap();
        let mut told = 0;
        let error = loop {
            match file.write(&vec![9; 1_000_000]) {
                Ok(count) => told += count as u64,
                Err(error) => break error,
            }
        };
        assert_eq!((error.raw_os_error(), file.metadata().unwrap().len()), (Some(28), told));
        drop(file);
        place.unmount();
    }
}

#[test]
fn what_an_allocation_took_before_it_failed_comes_back_with_a_truncation() {
    for place in [Mounted::unmounted(16), Mounted::unmounted_f2fs(64)] {
        let Some(mut place) = place.and_then(|place| place.mounted("")) else { return };
        let free = |place: &Mounted| rustix::fs::statvfs(place.at("")).unwrap().f_bfree;
        for (line, size) in [("fallocate -l 640M big", 0), ("echo a > big; fallocate -n -l 640M big", 2)] {
            let before = free(&place);
            place.shell(&format!("! ({line}) 2> /dev/null"));
            assert!(free(&place) < before / 2, "it keeps what it got: {line}");
            place.shell(&format!("truncate -s {size} big; sync big"));
            let is_free = (0..500).any(|_| {
                crate::support::pause(20);
                free(&place) + 8 > before
            });
            assert!(is_free, "{} of {before} blocks are free: {line}", free(&place));
            place.shell("rm big");
        }
        place.unmount();
    }
}
