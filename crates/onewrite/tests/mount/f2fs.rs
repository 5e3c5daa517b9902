//! F2FS under the mount: programs work on it, kills lose nothing that was synced, and fsck.f2fs calls it clean.

use std::fs;
use std::os::unix::fs::FileExt;

use onewrite_block::Choices;

use crate::kill::{judge, work_and_be_killed};
use crate::support::{Mounted, detach, kill, patiently, refusal, text};

/// Builds a tree of many kinds of files and changes, and compares it with the same on the host.
const TREE: &str = r#"
set -e
build() {
    mkdir -p a/b/c names && cd a
    for number in $(seq 1 400); do echo "content of $number" > "../names/a name of some length, number $number"; done
    head -c 3000000 /dev/urandom > random && cp random b/copy && cmp random b/copy
    truncate -s 5000000 sparse && printf end >> sparse
    dd if=/dev/zero of=holes bs=4096 count=3 seek=100 conv=notrunc status=none
    fallocate -p -o 4096 -l 1000000 b/copy
    ln -s ../random b/link && ln random b/hard && mkfifo pipe
    for number in $(seq 1 3 400); do rm "../names/a name of some length, number $number"; done
    mv b/c ../names/moved && mv ../names/moved c && rmdir c
    chmod 640 random && setfattr -n user.colour -v blue random
    tar cf b/all.tar -C .. names && tar xf b/all.tar && diff -r names ../names
    truncate -s 12345 b/copy && sync random
    cd ..
}
build
"#;

fn place(megabytes: u32, options: &str) -> Option<Mounted> {
    Mounted::unmounted_f2fs(megabytes)?.mounted(options)
}

#[test]
fn a_tree_built_by_programs_survives_on_f2fs() {
    let Some(mut place) = place(256, "") else { return };
    place.shell(TREE);
    let listing =
        "find . ! -type d -printf '%p %s %m %n %y %l\\n' | sort; find . -type f | sort | xargs -d '\\n' md5sum";
    let before = place.shell(listing);
    assert!(before.lines().count() > 500, "{before}");
    place.unmount();
    let place = place.mounted("").unwrap();
    assert_eq!(place.shell(listing), before);
    assert_eq!(place.shell("getfattr --only-values -n user.colour a/random"), "blue");
}

#[test]
fn git_works_on_f2fs() {
    let Some(mut place) = place(256, "") else { return };
    if place.run("git", &["--version"]).is_none() {
        return;
    }
    let work = "git init -q r && cd r && git config user.email a@b && git config user.name a && \
                for n in $(seq 1 60); do echo $n > file$n; git add -A; git commit -qm $n; done && \
                git gc -q && git fsck --strict 2>&1 && git log --oneline | wc -l";
    assert_eq!(place.shell(work).trim().lines().last(), Some("60"));
    place.unmount();
    let place = place.mounted("").unwrap();
    place.shell("cd r && git fsck --strict && git status --porcelain | wc -l | grep -qx 0");
}

#[test]
fn what_was_synced_on_f2fs_is_there_after_the_process_was_killed() {
    let kills: u64 = std::env::var("ONEWRITE_KILLS").map_or(4, |text| text.parse().unwrap());
    let mut moments = Choices::new(9);
    let Some(mut place) = Mounted::unmounted_f2fs(64) else { return };
    let (mut last, mut current) = (0, 0);
    for round in 0..kills {
        place = place.mounted("cache=2M").unwrap();
        (last, current) = work_and_be_killed(&place, (last, current), moments.below(300));
        let before = place.fsck_after_kill();
        assert!(before.status.success(), "round {round}: {}", String::from_utf8_lossy(&before.stdout));
        // The mount rolls forward what fsync made durable.
        place = place.mounted("").unwrap();
        place.unmount();
        judge(&place, (last, current), &format!("round {round}"));
    }
    assert!(last > 0, "nothing was synced before a kill");
}

#[test]
fn what_f2fs_has_not_is_refused() {
    let Some(place) = Mounted::unmounted_f2fs(64) else { return };
    let refused = refusal(&place.mount("image", "data=data"), 2);
    assert!(refused.contains("no journal") && refused.contains("leave it out"), "{refused}");
    let Some(place) = place.mounted("") else { return };
    let busy = refusal(&place.onewrite(&["cp", "image:/", "out"]), 3);
    assert!(busy.contains(&format!("image is in use by process {} (onewrite)", place.process())), "{busy}");
}

/// The image knows that fsyncs are in a staging file, so no mount passes over them.
#[test]
fn behind_a_kill_an_image_is_not_mounted_without_its_staging_file() {
    let Some(place) = Mounted::unmounted_f2fs(128) else { return };
    let missing = refusal(&place.mount("image", &format!("stage={}", place.beside("nothing").display())), 2);
    assert!(missing.contains("no such file") && missing.contains("truncate"), "{missing}");
    let itself = refusal(&place.mount("image", &format!("stage={}", place.beside("image").display())), 2);
    assert!(itself.contains("the image itself") && itself.contains("name another"), "{itself}");
    fs::write(place.beside("stage"), vec![0; 4 << 20]).unwrap();
    let staged = format!("stage={}", place.beside("stage").display());
    let place = place.mounted(&staged).unwrap();
    fs::write(place.at("f"), b"synced").unwrap();
    fs::File::open(place.at("f")).unwrap().sync_all().unwrap();
    kill(&place);
    detach(&place);
    let alone = refusal(&place.mount("image", ""), 2);
    assert!(alone.contains("-o stage=FILE") && alone.contains("discard_stage"), "{alone}");
    let listed = place.onewrite(&["ls", "image:/"]);
    assert!(String::from_utf8_lossy(&listed.stderr).contains("-o stage=FILE"), "{listed:?}");
    let checked = place.onewrite(&["fsck", "image"]);
    assert!(text(&checked).contains("-o stage=FILE"), "{checked:?}");
    let place = place.mounted(&staged).unwrap();
    assert_eq!(fs::read(place.at("f")).unwrap(), b"synced");
    patiently(|| place.onewrite(&["umount", "mnt"]));
    assert_eq!(text(&place.onewrite(&["cat", "image:/f"])), "synced");
    place.check();
}

/// fsck.f2fs knows nothing of staging areas, so it is no cure for a damaged one.
#[test]
fn fsck_says_what_helps_against_a_damaged_staging_area() {
    let Some(place) = Mounted::unmounted_f2fs(128) else { return };
    text(&place.onewrite(&["mkfs", "--force", "--fs", "f2fs", "--stage", "8MiB", "image"]));
    let place = place.mounted("").unwrap();
    fs::write(place.at("f"), b"synced").unwrap();
    fs::File::open(place.at("f")).unwrap().sync_all().unwrap();
    kill(&place);
    detach(&place);
    let image = fs::OpenOptions::new().write(true).open(place.beside("image")).unwrap();
    image.write_all_at(&[0xff; 4096], 120 << 20).unwrap();
    let checked = place.onewrite(&["fsck", "image"]);
    assert_eq!(checked.status.code(), Some(4), "{checked:?}");
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(told.contains("-o discard_stage") && !told.contains("fsck.f2fs"), "{told}");
    assert_eq!(told.matches("staging area").count(), 1, "told twice: {told}");
}

/// The kernel says which pages a map changed, not which bytes; so they are staged whole. What `msync` and `fsync` made
/// durable survives a kill, beside bytes that were written in the same pages.
#[test]
fn what_maps_changed_is_staged_by_whole_pages() {
    let Some(place) = Mounted::unmounted_f2fs(128) else { return };
    fs::write(place.beside("stage"), vec![0; 4 << 20]).unwrap();
    let staged = format!("stage={}", place.beside("stage").display());
    let place = place.mounted(&staged).unwrap();
    let script = "import mmap, os
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, bytes(range(256)) * 256, 0)
os.fsync(fd)
view = mmap.mmap(fd, 65536)
for number in range(16):
    view[4096 * number + 100:4096 * number + 105] = b'%05d' % number
    os.pwrite(fd, b'beside', 4096 * number + 2000)
    view.flush(4096 * number, 4096)
    os.fsync(fd)
view[0:5] = b'later'
view.flush()
";
    let Some(done) = place.run("python3", &["-c", script]) else { return };
    text(&done);
    let before = fs::read(place.at("f")).unwrap();
    assert!(before.starts_with(b"later") && &before[4096 * 9 + 100..4096 * 9 + 105] == b"00009");
    kill(&place);
    detach(&place);
    let place = place.mounted(&staged).unwrap();
    assert!(fs::read(place.at("f")).unwrap() == before, "a map's pages are lost");
    patiently(|| place.onewrite(&["umount", "mnt"]));
    place.check();
}

/// Nothing could be reached; without this, each access said EUCLEAN.
#[test]
fn an_image_whose_root_is_damaged_is_not_mounted() {
    for place in [Mounted::unmounted(64), Mounted::unmounted_f2fs(64)] {
        let Some(place) = place else { return };
        let mut bytes = fs::read(place.beside("image")).unwrap();
        let is_root = |page: &[u8]| page[4072..4080] == [3, 0, 0, 0, 3, 0, 0, 0];
        match bytes.chunks_exact(4096).position(is_root) {
            Some(page) => bytes[page * 4096 + 64] ^= 1,
            // The second inode of the table, which the first group's descriptor names.
            None => {
                let table = u32::from_le_bytes(bytes[4096 + 8..4096 + 12].try_into().unwrap()) as usize;
                bytes[table * 4096 + 256 + 100] ^= 1;
            }
        }
        fs::write(place.beside("image"), bytes).unwrap();
        for options in ["", "ro"] {
            let told = refusal(&place.mount("image", options), 2);
            assert!(told.contains("checksum") && told.contains("`onewrite fsck`"), "{told}");
        }
    }
}
