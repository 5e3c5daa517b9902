//! `onewrite crash`: its arguments, its output and its exit codes.

use serde_json::Value;

use crate::support::Scratch;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn one_of_so_many_random_workloads_is_thorough_and_every_one_of_a_list() {
    let scratch = Scratch::new();
    let glances = |words: &str| {
        let report = json(&scratch.onewrite(&format!("crash {words} --json -")).ok());
        ["glances", "workloads"].map(|name| report[name].as_u64().expect("a count"))
    };
    let [glanced, workloads] = glances("random:8 --thorough-every 2 --states 900");
    assert!(workloads > 3 && glanced.abs_diff(workloads / 2) <= 1, "{glanced} of {workloads}");
    let [glanced, workloads] = glances("random:8 --states 900");
    assert!(glanced > workloads / 2, "{glanced} of {workloads}");
    for words in ["ace:1 --states 300", "random:8 --faults --states 100", "scarce:3 --fs f2fs --states 300"] {
        assert_eq!(glances(words)[0], 0, "{words}");
    }
}

#[test]
fn a_report_is_json_alone_on_standard_output_and_the_same_for_a_seed() {
    let scratch = Scratch::new();
    let run = |seed| {
        scratch.onewrite(&format!(
            "crash random:40 --mode data --device nvme-share --states 600 --e2fsck-every 200 --seed {seed} --json -"
        ))
    };
    let first = run(3);
    let report = json(&first.ok());
    let kinds = &report["states_by_kind"];
    assert_eq!(report["states"], 600);
    assert!(
        ["subset", "log-not-empty", "inside-device", "inside-share"].iter().all(|kind| kinds[kind].as_u64() > Some(0))
    );
    assert!(report["violations"].as_array().unwrap().is_empty());
    let said = first.err();
    let parts = ["600 distinct states", "a second", "inside SHARE", "violations: none"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert!(first.out() == run(3).ok() && first.out() != run(4).ok());
}

/// The documentation's table and the help name the workloads that the program takes.
#[test]
fn workloads_of_the_documentation_are_taken_and_stand_in_the_help() {
    let scratch = Scratch::new();
    let page = include_str!("../../../../docs/crash-model.md");
    let names: Vec<&str> = page
        .lines()
        .skip_while(|line| *line != "| name | what |")
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split('`').nth(1).filter(|name| name.contains(':')))
        .collect();
    assert_eq!(names.len(), 13, "{names:?}");
    let help = scratch.onewrite("help crash").ok();
    for name in names {
        let workload = name.replace(":N", ":40").replace("…", "create /a; sync");
        let fs: &[&str] = if name.starts_with("scarce") { &["--fs", "f2fs"] } else { &["--mode", "data"] };
        let run = scratch.onewrite_with(&[&["crash", &workload, "--states", "5"], fs].concat());
        assert!(run.err().contains("violations: none"), "{workload}: {}", run.err());
        let units = [("scarce", ":ROUNDS"), ("full-log", ":SYNCS")];
        let unit = units.iter().find(|(series, _)| name.starts_with(series)).map_or(":OPERATIONS", |(_, unit)| unit);
        let form = name.replace(":N", unit).replace("…", "ACTIONS");
        assert!(help.contains(&form), "{form} is not in the help");
    }
    let refused = scratch.onewrite("crash shaers:40").err();
    assert!(refused.contains("shares:OPERATIONS") && refused.contains("script:ACTIONS"), "{refused}");
}

#[test]
fn jobs_and_personalities_are_workloads() {
    let scratch = Scratch::new();
    scratch.write("job.fio", "[w]\nrw=randwrite\nsize=128k\nfsync=4\n[d]\nrw=write\ndirect=1\nsize=64k\niodepth=4\n");
    for workload in ["job.fio", "varmail", "fileserver", "webserver", "webproxy", "postmark"] {
        let report = json(&scratch.onewrite(&format!("crash {workload} --states 300 --json -")).ok());
        assert!(report["states"] == 300 && report["violations"].as_array().unwrap().is_empty(), "{workload}: {report}");
    }
}

#[test]
fn a_share_can_be_torn() {
    let scratch = Scratch::new();
    let report = json(&scratch.onewrite("crash random:80 --mode sdj --torn-shares --states 2000 --json -").ok());
    assert!(report["states_by_kind"]["torn-share"].as_u64().unwrap() > 10, "{report}");
}

/// A device that keeps more in its buffer than the mode pads away.
#[test]
fn a_violation_ends_with_status_1_and_the_command_that_replays_it() {
    let scratch = Scratch::new();
    let pads = "--mode zp-data --device sata-850pro --eviction-spot 1MiB";
    let run = scratch.onewrite(&format!("crash random:30 {pads} --seed 1 --json report.json"));
    let said = run.fails_with(1);
    assert!(said.contains("BROKEN Durability") && said.contains("violations: Durability 1"), "{said}");
    let report = json(&std::fs::read_to_string(scratch.path("report.json")).unwrap());
    let violation = &report["violations"][0];
    let command = violation["replay"].as_str().unwrap();
    assert!(said.contains(&format!("replay: {command}")), "{said}");
    let small = violation["workload"].as_str().unwrap();
    assert!(small.len() < 100, "{small}");
    let mut words = Vec::new();
    for (place, part) in command.split('\'').enumerate() {
        if place % 2 == 1 { words.push(part) } else { words.extend(part.split_whitespace()) }
    }
    let again = scratch.onewrite_with(&words[1..]);
    assert!(again.fails_with(1).contains(violation["what"].as_str().unwrap()), "{}", again.err());
}

#[test]
fn faults_are_told_of() {
    let scratch = Scratch::new();
    let script = "script:create /a; write /a 0 9000 1; fsync /a";
    let report = json(&scratch.onewrite_with(&["crash", script, "--faults", "--json", "-"]).ok());
    assert!(report["judged"].as_u64() > Some(20), "{report}");
}

#[test]
fn operations_that_got_an_error_are_counted() {
    let scratch = Scratch::new();
    let script = "script:create /a; append /nope 5 1; fsync /nope; sync";
    let report = json(&scratch.onewrite_with(&["crash", script, "--json", "-"]).ok());
    // Four actions, and the unmount.
    assert_eq!((&report["operations"], &report["operations_with_errors"]), (&5.into(), &2.into()), "{report}");
}

/// But for the superblock, which no mode protects.
#[test]
fn a_disk_that_tears_pages_is_searched_to_the_end() {
    let scratch = Scratch::new();
    for mode in ["ordered", "data", "ldj"] {
        let command = format!("crash random:60 --mode {mode} --torn-pages --states 1500 --json -");
        let report = json(&scratch.onewrite(&command).ok());
        assert!(report["states_by_kind"]["torn-page"].as_u64() > Some(100), "{report}");
    }
}

#[test]
fn the_foreign_checker_sees_the_unmount_of_one_workload_in_fifteen() {
    let scratch = Scratch::new();
    let report = json(&scratch.onewrite("crash ace:1 --states 600 --e2fsck-every 100000 --json -").ok());
    let workloads = report["workloads"].as_u64().unwrap();
    assert_eq!(report["e2fsck_runs"], workloads.div_ceil(15), "{report}");
}

#[test]
fn every_refusal_of_a_crash_names_place_and_cure() {
    let scratch = Scratch::new();
    let cases = [
        (["crash", "nothing", "--states", "1"], "random:OPERATIONS"),
        (["crash", "script:frob /a", "--states", "1"], "frob /a"),
        (["crash", "script:frob /a", "--states", "1"], "create, mkdir"),
        (["crash", "script:rename /a", "--states", "1"], "rename FROM TO"),
        (["crash", "script:sync", "--state", "5:0-9999999999"], "units ascend"),
        (["crash", "script:sync", "--state", "5:9-2"], "units ascend"),
        (["crash", "script:sync", "--state", "5:0~99/0f"], "a torn one is among them"),
        (["crash", "script:sync", "--state", "fault:9999"], "no such state"),
        (["crash", "script:sync", "--state", "fault:9999+"], "no such state"),
        (["crash", "script:sync", "--state", "fault:9999>5:0"], "no such state"),
        (["crash", "script:sync", "--state", "room:18446744073709551615"], "no such state"),
        (["crash", "ace:2", "--state", "1:"], "script:"),
        (["crash", "script:sync", "--state", "cut:1:0"], "--device"),
        (["crash", "script:sync", "--state", "999:"], "no such state"),
        (["crash", "ace:1", "--mode", "fast"], "writeback, ordered, soj, zp, data"),
    ];
    for (arguments, cure) in cases {
        let said = scratch.onewrite_with(&arguments).fails_with(2);
        assert!(said.contains(cure), "{arguments:?}: {said}");
    }
}

#[test]
fn a_card_on_its_own_translation_layer_breaks_no_promise() {
    let scratch = Scratch::new();
    for (mode, ftl) in [("ordered", ""), ("data", ""), ("ordered", "--ftl bast")] {
        let command = format!("crash random:60 --mode {mode} --device microsd-adata {ftl} --states 2000 --json -");
        let report = json(&scratch.onewrite(&command).ok());
        assert_eq!(report["violations"], Value::Array(Vec::new()), "{command}");
        assert!(report["states_by_kind"]["inside-device"].as_u64().unwrap() > 100, "{report:#}");
    }
}

#[test]
fn the_default_size_has_room_for_any_staging_area() {
    let scratch = Scratch::new();
    for device in ["", "--device sata-850pro", "--device ocssd-huawei", "--device zns"] {
        for stage in ["256KiB", "32MiB"] {
            let command = format!("crash random:4 --fs f2fs --stage {stage} {device} --states 20 --json -");
            let report = json(&scratch.onewrite(&command).ok());
            assert_eq!(report["violations"], Value::Array(Vec::new()), "{command}");
        }
    }
}
