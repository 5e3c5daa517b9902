//! Kill: kills the process of the mount at random moments under load. Synced content must survive, and our fsck must
//! recover the image; then e2fsck must find nothing and the kernel must mount it.
//!
//! `ONEWRITE_KILLS` sets the number of kills in each mode (default 2; `make kills` uses 100).

use std::fs::{self, File};

use std::os::unix::fs::FileExt;
use std::process::Command;

use onewrite_block::Choices;
use onewrite_testing::skipped;

use crate::support::{Mounted, lines_before_kill, modes, text};

/// Writes records of 4 KiB, each full of its own number, syncs each and prints its number. Also renames one file over
/// another.
const LOAD: &str = "import os, sys
fd = os.open('records', os.O_RDWR | os.O_CREAT)
d = os.open('.', os.O_RDONLY)
number = int(sys.argv[1])
while True:
    number += 1
    os.pwrite(fd, (b'%08d' % number) * 512, number % 300 * 4096)
    os.fsync(fd)
    print('record', number, flush=True)
    if number % 5 == 0:
        with open('new', 'w') as new:
            new.write('%d\\n' % number * 100); new.flush(); os.fsync(new.fileno())
        os.rename('new', 'current'); os.fsync(d)
        print('current', number, flush=True)
";

#[test]
fn what_was_synced_is_there_after_the_process_was_killed() {
    let kills: u64 = std::env::var("ONEWRITE_KILLS").map_or(2, |text| text.parse().unwrap());
    for mode in modes() {
        let choices = Choices::new(7);
        let mut moments = choices.stream(mode, 0);
        let Some(mut place) = Mounted::unmounted(64) else { return };
        let (mut last, mut current) = (0, 0);
        for round in 0..kills {
            place = place.mounted(&format!("data={mode},cache=2M")).unwrap();
            (last, current) = work_and_be_killed(&place, (last, current), moments.below(300));
            let recovered = place.fsck_after_kill();
            assert!(
                recovered.status.success(),
                "{mode}, round {round}: {}{}",
                String::from_utf8_lossy(&recovered.stdout),
                String::from_utf8_lossy(&recovered.stderr)
            );
            place.check();
            judge(&place, (last, current), &format!("{mode}, round {round}"));
        }
        assert!(last > 0, "{mode}: nothing was synced before a kill");
        mounts_in_the_kernel(&place);
    }
}

/// Kills the process some time after the first record was synced. Returns the last record and the last rename that were
/// synced before the kill.
pub fn work_and_be_killed(place: &Mounted, (mut last, mut current): (u64, u64), after_milliseconds: u64) -> (u64, u64) {
    for line in lines_before_kill(place, LOAD, &last.to_string(), after_milliseconds) {
        match line.split_once(' ').unwrap() {
            ("record", number) => last = number.parse().unwrap(),
            (_, number) => current = number.parse().unwrap(),
        }
    }
    (last, current)
}

pub fn judge(place: &Mounted, (last, current): (u64, u64), when: &str) {
    let out = place.beside("records");
    let _ = fs::remove_file(&out);
    if last == 0 {
        return;
    }
    text(&place.onewrite(&["cp", "image:/records", "records"]));
    let records = File::open(&out).unwrap();
    for number in last.saturating_sub(299).max(1)..=last {
        let mut page = vec![0; 4096];
        records.read_exact_at(&mut page, number % 300 * 4096).unwrap();
        let found: u64 = std::str::from_utf8(&page[..8]).unwrap().parse().unwrap_or(0);
        // The next record may be written but not synced, so only the page of that record may be newer.
        assert!(found == number || found > last && found % 300 == number % 300, "{when}: {found} for {number}");
    }
    if current > 0 {
        let found = text(&place.onewrite(&["cat", "image:/current"]));
        let first: u64 = found.lines().next().unwrap_or_default().parse().unwrap_or(0);
        assert!(first >= current && found == format!("{first}\n").repeat(100), "{when}: {first} for {current}");
    }
}

fn mounts_in_the_kernel(place: &Mounted) {
    let mounted = Command::new("mount").args(["-o", "loop,ro"]).arg(place.beside("image")).arg(place.at("")).output();
    let mounted = mounted.unwrap();
    if !mounted.status.success() {
        skipped!("no loop device: {}", String::from_utf8_lossy(&mounted.stderr));
        return;
    }
    assert!(place.at("records").exists());
    place.umount();
}
