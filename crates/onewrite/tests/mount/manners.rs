//! Manners: how a mount begins, what it refuses, what it reports, and how it ends.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Mounted, pause, refusal, text};

#[test]
fn it_answers_when_the_command_returns_and_the_table_of_mounts_names_it() {
    let Some(mut place) = Mounted::new(64, "data=data+async") else { return };
    fs::write(place.at("f"), b"content").unwrap();
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let image = place.beside("image").canonicalize().unwrap();
    let line = table.lines().find(|line| line.starts_with(&*image.to_string_lossy())).unwrap();
    assert!(line.contains(" fuse.onewrite rw,nosuid,nodev,noatime"), "{line}");
    let command = fs::read_to_string(format!("/proc/{}/cmdline", place.process())).unwrap();
    assert!(command.contains("mount\0image\0mnt\0"), "{command:?}");
    let stats = place.stats();
    assert_eq!(stats["mode"], "data+async");
    assert!(stats["requests"]["write"]["count"] == 1 && stats["requests"]["write"]["p50_us"].as_f64() > Some(0.0));
    place.unmount();
    let log = fs::read_to_string(place.beside("log")).unwrap();
    assert!(log.contains("mounted, mode data+async") && log.contains("unmounted"), "{log}");
    assert_eq!(fs::metadata(place.beside("log")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_image_in_use_is_refused_to_others_and_the_mount_goes_on() {
    let Some(mut place) = Mounted::new(64, "") else { return };
    fs::create_dir(place.beside("second")).unwrap();
    let second = place.onewrite(&["mount", "image", "second", "--log", "log2"]);
    assert!(refusal(&second, 3).contains("in use"));
    assert!(refusal(&place.onewrite(&["cp", "log", "image:/"]), 3).contains("in use"));
    fs::write(place.at("f"), b"content").unwrap();
    place.unmount();
}

#[test]
fn wrong_wishes_are_refused_with_a_cure_and_leave_no_mount() {
    let Some(place) = Mounted::unmounted(64) else { return };
    let told = |source: &str, options: &str| refusal(&place.mount(source, options), 2);
    assert!(told("absent", "").contains("onewrite mkfs"));
    assert!(told("./absent", "").contains("onewrite mkfs"));
    assert!(told("image", "data=nonsense").contains("ordered"));
    assert!(told("image", "data=sdj").contains("SHARE"));
    assert!(told("image", "no-such-option").contains("there are data=MODE"));
    assert!(told("image", "cache=1K").contains("-o cache=1K: the page cache takes at least 1024 KiB"));
    assert!(told("image", "size=64M").contains("leave it out"));
    let nowhere = place.onewrite(&["mount", "image", "nowhere", "--log", "log"]);
    assert!(refusal(&nowhere, 2).contains("nowhere"));
    let on_file = place.onewrite(&["mount", "image", "image", "--log", "log"]);
    assert!(refusal(&on_file, 2).contains("not a directory"));
    assert!(refusal(&place.onewrite(&["stats", "mnt"]), 2).contains("onewrite mount"));
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(&*place.at("").to_string_lossy()));
    place.check();
}

#[test]
fn a_signal_unmounts_in_order_while_a_program_uses_the_mount() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let Some(place) = Mounted::new(64, "data=data") else { return };
        fs::write(place.at("f"), b"not synced").unwrap();
        let mut user = Command::new("sleep").arg("60").current_dir(place.at("")).spawn().unwrap();
        kill_process(Pid::from_raw(place.process() as i32).unwrap(), signal).unwrap();
        place.wait_for_end();
        user.kill().unwrap();
        user.wait().unwrap();
        place.check();
        assert_eq!(text(&place.onewrite(&["cat", "image:/f"])), "not synced");
    }
}

#[test]
fn a_read_only_mount_changes_no_byte_and_replays_in_memory() {
    let Some(mut place) = Mounted::new(64, "data=data") else { return };
    fs::write(place.at("f"), b"synced").unwrap();
    fs::File::open(place.at("f")).unwrap().sync_all().unwrap();
    kill_process(Pid::from_raw(place.process() as i32).unwrap(), Signal::KILL).unwrap();
    place.wait_for_end();
    text(&Command::new("umount").args(["-l"]).arg(place.at("")).output().unwrap());
    let before = fs::read(place.beside("image")).unwrap();
    place = place.mounted("ro").unwrap();
    assert_eq!(fs::read(place.at("f")).unwrap(), b"synced");
    assert_eq!(fs::write(place.at("f"), b"").unwrap_err().raw_os_error(), Some(30));
    place.umount();
    place.wait_for_end();
    assert!(fs::read(place.beside("image")).unwrap() == before, "the image changed");
}

/// ext4 cannot write zones in order; a translation layer of the host lies below it then.
#[test]
fn an_open_channel_device_is_mounted_over_a_translation_layer() {
    let Some(place) = Mounted::unmounted(16) else { return };
    text(&place.mount("ocssd-huawei", "size=64M"));
    fs::write(place.at("f"), [7; 9000]).unwrap();
    assert!(fs::read(place.at("f")).unwrap() == [7; 9000], "other content");
}

/// Each sync on the emulated disk takes about 13 ms, beside which what lies between a program and the core is little.
#[test]
fn the_statistics_are_what_a_program_measured() {
    let Some(place) = Mounted::unmounted(16) else { return };
    text(&place.mount("sata-850pro", "size=64M"));
    let mut file = fs::File::create(place.at("f")).unwrap();
    let (mut spans, mut stats) = (Vec::new(), serde_json::Value::Null);
    let whole = timed(|| {
        spans.extend((0..20).map(|_| timed(|| file.write_all(&[1; 4096]).and_then(|()| file.sync_all()))));
        stats = place.stats();
        Ok(())
    });
    spans.sort_by(f64::total_cmp);
    let syncs = &stats["requests"]["fsync"];
    assert_eq!(syncs["count"], 20);
    let (median, longest) = (syncs["p50_us"].as_f64().unwrap(), syncs["max_us"].as_f64().unwrap());
    // The mount's clock stops after its reply, so another program may come between: no span has the program's bound.
    assert!((0.5 * spans[10]..=spans[19]).contains(&median), "{median} us told, {spans:?} measured");
    assert!(median >= 5_000.0 && (median..=whole).contains(&longest), "{median}, {longest} us told in {whole}");
    // A FLUSH for the data and one for the commit, and those of the mount; a timer may add a commit.
    let device = &stats["device"];
    assert!((42..=46).contains(&device["flushes"].as_u64().unwrap()), "{stats}");
    let by_cause = &device["host_write_bytes_by_cause"];
    assert_eq!((by_cause[0].as_u64(), &by_cause[2]), (Some(20 * 4096), &stats["fs"]["journal_bytes"]), "{stats}");
    drop(file);
    place.umount();
}

/// Microseconds that `work` takes.
#[expect(clippy::disallowed_methods, reason = "what programs measure")]
fn timed(work: impl FnOnce() -> std::io::Result<()>) -> f64 {
    let begin = std::time::Instant::now();
    work().unwrap();
    begin.elapsed().as_secs_f64() * 1e6
}

#[test]
fn an_emulated_device_works_in_real_time_and_forgets() {
    let Some(place) = Mounted::unmounted(16) else { return };
    text(&place.mount("nvme-share", "data=sdj,size=128M"));
    fs::write(place.at("f"), vec![1; 1 << 20]).unwrap();
    fs::File::open(place.at("f")).unwrap().sync_all().unwrap();
    let stats = place.stats();
    assert_eq!((&stats["source"], &stats["mode"]), (&"nvme-share".into(), &"sdj".into()));
    assert!(stats["device"]["flash_program_bytes"].as_u64() > Some(1 << 20), "{stats}");
    place.umount();
    pause(300);
    text(&place.mount("nvme-share", "data=sdj,size=128M"));
    assert!(!place.at("f").exists());
    place.umount();
}
