//! Ends: ends of mounts, mounts after them, and the helpers of mount(8) and umount(8).

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use onewrite_testing::skipped;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Mounted, patiently, refusal, text};

fn helper(place: &Mounted, name: &str, arguments: &[&str]) -> Output {
    let mut helper = Command::new(env!("CARGO_BIN_EXE_onewrite"));
    helper.arg0(Path::new("/sbin").join(name)).current_dir(place.beside("")).args(arguments).output().unwrap()
}

fn is_mounted(place: &Mounted) -> bool {
    let directory = place.beside("mnt").canonicalize().unwrap_or_else(|_| place.beside("mnt"));
    fs::read_to_string("/proc/self/mounts").unwrap().contains(&*directory.to_string_lossy())
}

fn kill(place: &Mounted) {
    kill_process(Pid::from_raw(place.process() as i32).unwrap(), Signal::KILL).unwrap();
    place.wait_for_end();
}

#[test]
fn when_umount_of_onewrite_returns_the_image_is_clean_and_free() {
    for _ in 0..5 {
        let Some(place) = Mounted::new(64, "data=data") else { return };
        fs::write(place.at("f"), vec![7; 4 << 20]).unwrap();
        patiently(|| place.onewrite(&["umount", "mnt"]));
        place.check();
        assert_eq!(text(&place.onewrite(&["cat", "image:/f"])).len(), 4 << 20);
    }
}

#[test]
fn umount_of_onewrite_refuses_to_lose_what_the_host_has_no_room_for() {
    let Some(place) = Mounted::unmounted(64) else { return };
    place.shell_beside("mkdir small; mount -t tmpfs -o size=12m none small; cp --sparse=always image small/image");
    assert!(place.mount("small/image", "").status.success());
    place.shell_beside("head -c 9000000 /dev/urandom > small/filler || true");
    fs::write(place.at("f"), vec![7; 6 << 20]).unwrap();
    let told = refusal(&place.onewrite(&["umount", "mnt"]), 3);
    assert!(told.contains("does not take what programs wrote") && told.contains("--lazy"), "{told}");
    assert!(fs::read_to_string(place.beside("log")).unwrap().contains("No space left"));
    assert!(is_mounted(&place));
    fs::remove_file(place.beside("small/filler")).unwrap();
    patiently(|| place.onewrite(&["umount", "mnt"]));
    assert_eq!(text(&place.onewrite(&["cat", "small/image:/f"])).len(), 6 << 20);
    place.shell_beside("umount small");
}

#[test]
fn a_mount_right_after_umount_waits_for_the_one_that_ends() {
    let Some(place) = Mounted::new(64, "data=data") else { return };
    let mut place = Some(place);
    for round in 0..5 {
        let here = place.take().unwrap();
        fs::write(here.at("f"), vec![round; 4 << 20]).unwrap();
        patiently(|| Command::new("umount").arg("-i").arg(here.at("")).output().unwrap());
        place = here.mounted("data=data");
    }
    place.unwrap().unmount();
}

/// A mount waits for one that ends, not for one that serves.
#[test]
fn an_image_is_known_as_mounted_by_all_its_names() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    place.shell_beside("ln image hard; ln -s image soft; cp image other");
    let hard = place.beside("hard");
    for (name, is_mounted) in [("image", true), ("hard", true), ("soft", true), ("other", false), ("absent", false)] {
        let found = onewrite_host::fuse::is_mounted(place.beside(name).to_str().unwrap());
        assert_eq!(found, is_mounted, "{name}");
    }
    for name in ["image", "hard", "soft"] {
        assert!(refusal(&place.onewrite(&["mount", name, "mnt", "--log", "log2"]), 3).contains("is in use by"));
    }
    place.unmount();
    assert!(!onewrite_host::fuse::is_mounted(hard.to_str().unwrap()));
}

#[test]
fn umount_refuses_while_programs_use_the_mount_unless_it_is_lazy() {
    let Some(place) = Mounted::new(64, "") else { return };
    let mut user = Command::new("sleep").arg("60").current_dir(place.at("")).spawn().unwrap();
    assert!(refusal(&place.onewrite(&["umount", "mnt"]), 3).contains("--lazy"));
    text(&place.onewrite(&["umount", "--lazy", "mnt"]));
    assert!(!is_mounted(&place));
    user.kill().unwrap();
    user.wait().unwrap();
    place.wait_for_end();
    place.check();
    assert!(refusal(&place.onewrite(&["umount", "mnt"]), 2).contains("not the root of a mount"));
}

#[test]
fn a_dead_mount_is_detached_by_the_next_and_by_umount() {
    let Some(place) = Mounted::new(64, "data=data") else { return };
    fs::write(place.at("f"), b"synced").unwrap();
    fs::File::open(place.at("f")).unwrap().sync_all().unwrap();
    kill(&place);
    assert!(refusal(&place.onewrite(&["stats", "mnt"]), 3).contains("onewrite umount mnt"));
    let place = place.mounted("data=data").unwrap();
    assert_eq!(fs::read(place.at("f")).unwrap(), b"synced");
    assert!(fs::read_to_string(place.beside("log")).unwrap().contains("a dead mount was detached"));
    kill(&place);
    patiently(|| place.onewrite(&["umount", "mnt"]));
    assert!(!is_mounted(&place));
    text(&place.onewrite(&["fsck", "-p", "image"]));
    place.check();
}

#[test]
fn a_mount_that_hides_another_says_so() {
    let Some(place) = Mounted::new(64, "") else { return };
    let second = place.onewrite(&["mount", "nvme-share", "mnt", "--log", "log2", "-o", "size=64M"]);
    text(&second);
    assert!(String::from_utf8_lossy(&second.stderr).contains("a new one hides it"), "{second:?}");
    patiently(|| place.onewrite(&["umount", "mnt"]));
    assert_eq!(place.stats()["mode"], "ordered");
}

#[test]
fn a_mount_warns_on_the_terminal_too() {
    let Some(place) = Mounted::unmounted(64) else { return };
    for (mode, wanted) in [("ldj-paper", "never committed"), ("zp", "eviction spot")] {
        let mounted = place.mount("image", &format!("data={mode}"));
        text(&mounted);
        assert!(String::from_utf8_lossy(&mounted.stderr).contains(wanted), "{mounted:?}");
        assert!(fs::read_to_string(place.beside("log")).unwrap().contains(wanted));
        patiently(|| place.onewrite(&["umount", "mnt"]));
    }
}

#[test]
fn a_signal_takes_no_mount_of_others_off() {
    let Some(place) = Mounted::new(64, "") else { return };
    assert_eq!(fs::read_link(format!("/proc/{}/cwd", place.process())).unwrap(), Path::new("/"));
    fs::write(place.at("f"), b"ours").unwrap();
    place.shell_beside("mount -t tmpfs none mnt; echo theirs > mnt/f");
    kill_process(Pid::from_raw(place.process() as i32).unwrap(), Signal::TERM).unwrap();
    place.wait_for_end();
    assert_eq!(fs::read(place.at("f")).unwrap(), b"theirs\n");
    place.shell_beside("umount mnt");
    place.check();
    assert_eq!(text(&place.onewrite(&["cat", "image:/f"])), "ours");
}

#[test]
fn a_read_only_mount_ends_without_a_complaint_and_fsyncs_there_succeed() {
    for place in [Mounted::unmounted(64), Mounted::unmounted_f2fs(64)] {
        let Some(place) = place.and_then(|place| place.mounted("")) else { return };
        fs::write(place.at("f"), b"f").unwrap();
        patiently(|| place.onewrite(&["umount", "mnt"]));
        let place = place.mounted("ro").unwrap();
        fs::File::open(place.at("f")).unwrap().sync_all().unwrap();
        patiently(|| place.onewrite(&["umount", "mnt"]));
    }
}

#[test]
fn umount_tells_that_the_process_had_died() {
    let Some(place) = Mounted::new(64, "") else { return };
    kill(&place);
    let ended = place.onewrite(&["umount", "mnt"]);
    assert!(
        ended.status.success() && String::from_utf8_lossy(&ended.stderr).contains("its process had died"),
        "{ended:?}"
    );
}

#[test]
fn a_directory_is_judged_before_the_image_is_replayed() {
    let Some(place) = Mounted::new(64, "data=data") else { return };
    fs::write(place.at("f"), b"synced").unwrap();
    fs::File::open(place.at("f")).unwrap().sync_all().unwrap();
    kill(&place);
    patiently(|| place.onewrite(&["umount", "mnt"]));
    let before = fs::read(place.beside("image")).unwrap();
    refusal(&place.onewrite(&["mount", "image", "nowhere", "--log", "log"]), 2);
    refusal(&place.onewrite(&["mount", "image", "mnt", "--log", "image"]), 2);
    assert!(fs::read(place.beside("image")).unwrap() == before, "a refused mount changed the image");
}

#[test]
fn mount_and_umount_run_the_program_under_the_names_of_their_helpers() {
    let Some(place) = Mounted::unmounted(64) else { return };
    text(&helper(&place, "mount.fuse.onewrite", &["image", "mnt", "-fv", "-o", "rw"]));
    text(&helper(&place, "mount.fuse.onewrite", &["absent.img", "mnt", "-o", "nofail"]));
    assert!(!is_mounted(&place));
    text(&helper(
        &place,
        "mount.fuse.onewrite",
        &["image", "mnt", "-sn", "-o", "ro,rw,noauto,data=ordered,frobnicate"],
    ));
    fs::write(place.at("f"), b"x").unwrap();
    assert_eq!(place.stats()["mode"], "ordered");
    text(&helper(&place, "umount.fuse.onewrite", &["mnt", "-v"]));
    place.check();
    let log = format!("{}.log", place.at("").display().to_string().trim_matches('/').replace('/', "-"));
    fs::remove_file(Path::new("/var/log/onewrite").join(log)).unwrap();
}

/// Runs a shell line in the scratch directory as a user without privileges, who may use FUSE: a device node of the
/// scratch directory hides that of the host, which only root may use on some machines.
fn as_nobody(place: &Mounted, line: &str) -> Output {
    apart(place, "exec $NOBODY sh -ec \"$1\"", line)
}

/// Runs `script` as root, with a line as its argument, where every user may use FUSE; `$NOBODY` and `$OTHER` before a
/// command make it that of a user without privileges.
fn apart(place: &Mounted, script: &str, line: &str) -> Output {
    let before = "mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse; rm fuse";
    let user = |name, id| format!("{name}='setpriv --reuid={id} --regid={id} --clear-groups'");
    let script = format!("{before}; {}; {}; {script}", user("NOBODY", 65_534), user("OTHER", 65_533));
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-ec", &script, "sh", line]).current_dir(place.beside("")).output().unwrap()
}

#[test]
fn an_ordinary_user_mounts_through_the_helper_of_fuse() {
    let Some(place) = Mounted::unmounted(64) else { return };
    fs::remove_file(place.beside("image")).unwrap();
    for path in ["", "mnt"] {
        fs::set_permissions(place.beside(path), fs::Permissions::from_mode(0o777)).unwrap();
        chown(place.beside(path), Some(65534), Some(65534)).unwrap();
    }
    // Nobody may not enter every directory that the program may have been built in.
    fs::copy(env!("CARGO_BIN_EXE_onewrite"), place.beside("program")).unwrap();
    if !as_nobody(&place, "./program --version && test -w /dev/fuse && command -v fusermount3").status.success() {
        skipped!("no fusermount3, or root may not make a device node here");
        return;
    }
    text(&as_nobody(&place, "./program mkfs image --size 64MiB; ./program mkfs image.f2fs --fs f2fs --size 64MiB"));
    let without = as_nobody(&place, "PATH=/nowhere ./program mount image mnt --log log");
    assert!(refusal(&without, 3).contains("fuse3"));
    let lines = "./program mount image mnt --log log; echo hello > mnt/f; ./program stats mnt; ./program umount mnt; \
                 ./program mount image.f2fs mnt --log log; echo f2fs > mnt/f; ./program umount mnt";
    let told = text(&as_nobody(&place, lines));
    assert!(told.contains("mode ordered"), "{told}");
    assert_eq!(text(&place.onewrite(&["cat", "image:/f"])), "hello\n");
    assert_eq!(text(&place.onewrite(&["cat", "image.f2fs:/f"])), "f2fs\n");
    // The kernel does not let root into that mount, and root ends it all the same; another user does not.
    let ends = "$NOBODY ./program mount image mnt --log log; if $OTHER ./program umount mnt 2> told; then exit 9; fi; \
                grep -q 'another user mounted it' told; ./program umount mnt; ! mountpoint -q mnt";
    text(&apart(&place, ends, ""));
    place.wait_until_free();
    place.check();
}

#[test]
fn a_device_that_is_not_that_of_fuse_is_named() {
    let Some(place) = Mounted::unmounted(64) else { return };
    let line = "touch plain; mount --bind plain /dev/fuse; exec $ONEWRITE mount image mnt --log log";
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "sh", "-ec", line]).env("ONEWRITE", env!("CARGO_BIN_EXE_onewrite"));
    let told = refusal(&apart.current_dir(place.beside("")).output().unwrap(), 3);
    assert!(told.contains("mknod /dev/fuse c 10 229"), "{told}");
}
