//! `onewrite probe`, and the modes that pad.

use std::process::Command;

use onewrite_testing::skipped;
use serde_json::Value;

use crate::support::Scratch;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_probe_finds_what_the_papers_found_draws_it_and_can_be_given_to_zp() {
    let scratch = Scratch::new();
    let said = scratch.onewrite("probe sata-850pro --json probe.json --chart probe.svg").ok();
    assert!(said.contains("is certain after 2.31 MB") && said.contains("eviction"), "{said}");
    let probe = json(&std::fs::read_to_string(scratch.path("probe.json")).unwrap());
    let begins = probe["eviction_begins_bytes"].as_u64().unwrap();
    assert!((1_700_000..2_000_000).contains(&begins), "{begins}");
    assert!(probe["buffer_read"]["max_ns"].as_u64() < probe["flash_read"]["min_ns"].as_u64());
    let chart = std::fs::read_to_string(scratch.path("probe.svg")).unwrap();
    assert!(chart.starts_with("<svg") && chart.contains("certain: 2.31 MB") && chart.contains("<circle"));
    let run =
        "run varmail --operations 400 --files 50 --mode zp+reread --size 256MiB --eviction-spot probe.json --json -";
    let figures = &json(&scratch.onewrite(run).ok())["onewrite"]["device"];
    assert!(figures["host_write_bytes_by_cause"]["padding"].as_u64() > Some(2_400_000), "{figures}");
}

#[test]
fn a_profile_in_a_file_is_warned_of_where_it_does_not_keep_its_side() {
    let scratch = Scratch::new();
    let text = include_str!("../../../onewrite-device/profiles/sata-850pro.toml");
    scratch.write("ssd.toml", text.replace("[flash]", "[flash]\noob_hints = false"));
    let warned = |mode: &str| {
        let run = format!("run varmail --operations 100 --files 50 --size 256MiB --device ssd.toml --mode {mode}");
        let ended = scratch.onewrite(&run);
        ended.ok();
        ended.err().contains("warning: ssd.toml keeps no out-of-band hints")
    };
    assert!(warned("zp") && !warned("zp+reread") && !warned("ordered"));
    let crash = ["crash", "script:create /a; write /a 0 9000 1; fsync /a", "--mode", "zp", "--device", "ssd.toml"];
    let said = scratch.onewrite_with(&[&crash[..], &["--states", "100"]].concat()).fails_with(1);
    let replay = said.lines().find(|line| line.starts_with("replay: ")).unwrap();
    assert!(replay.contains("--device ssd.toml") && replay.contains("--state 'cut:"), "{replay}");
}

#[test]
fn probing_a_real_file_needs_force_and_says_what_it_could_not_find() {
    let scratch = Scratch::new();
    scratch.write("disk", vec![0; 8 << 20]);
    assert!(scratch.onewrite("probe ./disk").fails_with(2).contains("--force"));
    assert!(scratch.onewrite("probe ./nothing").fails_with(2).contains("no such file"));
    assert!(scratch.onewrite("probe ./disk --force").fails_with(2).contains("--max smaller"));
    let ended = scratch.onewrite("probe ./disk --force --max 1MiB --json -");
    if ended.err().contains("direct transfers") {
        skipped!("files in the temporary directory cannot be read past the page cache");
        return;
    }
    let found = json(&ended.ok());
    assert!(found["flash_read"]["mean_ns"].as_u64() > Some(0), "{found}");
}

/// A loop device over a file, detached when dropped.
struct Loop(String);

impl Loop {
    fn over(file: &std::path::Path) -> Option<Loop> {
        let output = losetup(&["--find", "--show"]).arg(file).output().ok().filter(|output| output.status.success())?;
        Some(Loop(String::from_utf8(output.stdout).ok()?.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        assert!(losetup(&["--detach", &self.0]).status().is_ok_and(|status| status.success()), "{} goes", self.0);
    }
}

fn losetup(arguments: &[&str]) -> Command {
    let mut command = Command::new("losetup");
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    command.env("PATH", path).args(arguments);
    command
}

#[test]
fn a_block_device_is_probed_with_force_only() {
    let scratch = Scratch::new();
    scratch.write("disk", vec![0; 16 << 20]);
    let Some(device) = Loop::over(&scratch.path("disk")) else {
        skipped!("no loop devices here (root, util-linux?)");
        return;
    };
    assert!(scratch.onewrite(&format!("probe {}", device.0)).fails_with(2).contains("--force"));
    let found = json(&scratch.onewrite(&format!("probe {} --force --max 1MiB --json -", device.0)).ok());
    assert!(
        found["flash_read"]["mean_ns"].as_u64() > Some(0) && found["buffer_read"]["mean_ns"].as_u64() > Some(0),
        "{found}"
    );
}
