//! Cache studies and traces on the command line.

use crate::support::Scratch;

/// Reads and writes of a few hot pages, with a sequential write between.
fn own_trace() -> String {
    let hot = (0..400_u32).map(|number| format!("{},{}\n", if number % 3 == 0 { 'w' } else { 'r' }, number * 7 % 40));
    let run = (0..300_u32).map(|number| format!("w,{}\n", 1000 + number));
    hot.clone().chain(run).chain(hot).collect()
}

#[test]
fn a_study_gives_a_cell_for_each_policy_and_size() {
    let scratch = Scratch::new();
    scratch.write("t.csv", own_trace());
    let study = "cache t.csv --policy all --size 64KiB,128KiB --flash-block 64KiB --json -";
    let text = scratch.onewrite(study).ok();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 30);
    for cell in cells {
        let count = |name: &str| cell[name].as_u64().unwrap_or_else(|| panic!("{cell}"));
        assert_eq!(count("hits") + count("misses"), 1100);
        assert_eq!((count("requests"), &cell["device"]), (1100, &serde_json::Value::Null));
        assert!(count("evicted_clean") + count("evicted_dirty") <= count("misses"));
    }
    assert_eq!((&cells[0]["policy"], &cells[29]["policy"]), (&"lru".into(), &"belady".into()));
    assert_eq!(scratch.onewrite(&format!("{study} --threads 1")).ok(), text, "any number of cores gives the same");
}

#[test]
fn sizes_are_shares_of_the_footprint_and_a_chart_shows_the_misses() {
    let scratch = Scratch::new();
    scratch.write("t.csv", own_trace());
    let study = "cache t.csv --policy lru,arc --size 10%,50%,64KiB --flash-block 16KiB";
    let json: serde_json::Value =
        serde_json::from_str(&scratch.onewrite(&format!("{study} --json - --chart c.svg")).ok()).unwrap();
    let sizes: Vec<u64> =
        json["cells"].as_array().unwrap().iter().filter_map(|cell| cell["size_bytes"].as_u64()).collect();
    assert_eq!(sizes, [34, 34, 170, 170, 16, 16].map(|pages| pages * 4096), "340 different pages");
    let chart = std::fs::read_to_string(scratch.path("c.svg")).unwrap();
    assert!(chart.starts_with("<svg xmlns=") && chart.matches("<polyline").count() == 2 && chart.contains(">arc<"));
    scratch.onewrite(&format!("{study} --chart c.html")).ok();
    let page = std::fs::read_to_string(scratch.path("c.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("viewport") && page.contains("t.csv"));
    let refusal = scratch.onewrite("cache t.csv --size 10% --chart c.svg").fails_with(2);
    assert!(refusal.contains("several that differ"), "{refusal}");
    assert!(scratch.onewrite("cache t.csv --size 101%").fails_with(2).contains("no share"));
}

#[test]
fn a_run_of_ours_goes_through_a_cache_to_a_device() {
    let scratch = Scratch::new();
    scratch.onewrite("run varmail --operations 300 --files 50 --size 128M --trace run.csv --json run.json").ok();
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(scratch.path("run.json")).unwrap()).unwrap();
    let trace = std::fs::read_to_string(scratch.path("run.csv")).unwrap();
    let (mkfs, counted) = trace.split_once(",0,counters-begin,").expect("a mark where mkfs ends");
    assert!(mkfs.lines().count() > 2 && !counted.contains("counters-begin"), "{mkfs}");
    let writes = counted.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let pages = writes.filter(|line| line.len() == 7 && line[2].starts_with("write"));
    let written: u64 = pages.map(|line| 4096 * line[4].parse::<u64>().unwrap()).sum();
    assert_eq!(json["onewrite"]["device"]["host_write_bytes"], written, "what stands behind the mark is counted");
    let study = "cache run.csv --policy lru,ts-clock --size 1MiB --device ideal --device-size 128MiB --after after.csv";
    let table = scratch.onewrite(study).ok();
    assert!(table.contains("ts-clock") && table.contains("WAF"), "{table}");
    let summary = scratch.onewrite("trace summarise after-lru-1048576.csv run.csv").ok();
    assert_eq!(summary.lines().count(), 3, "{summary}");
}

#[test]
fn the_pages_of_a_run_go_through_a_cache() {
    let scratch = Scratch::new();
    let run = "run varmail --operations 300 --files 50 --size 128M --page-trace";
    scratch.onewrite(&format!("{run} one.csv")).ok();
    scratch.onewrite(&format!("{run} two.csv.zst --cache-policy ts-clock")).ok();
    let summaries = |name: &str| scratch.onewrite(&format!("trace summarise {name} --json -")).ok();
    let json: serde_json::Value = serde_json::from_str(&summaries("one.csv")).unwrap();
    let count = |name: &str| json[0][name].as_u64().unwrap();
    assert!(count("reads") > 50 && count("writes") > 200, "{json}");
    assert_eq!(json, serde_json::from_str::<serde_json::Value>(&summaries("two.csv.zst")).unwrap(), "before the cache");
    let table = scratch.onewrite("cache one.csv --policy lru,ts-clock --size 256KiB").ok();
    assert!(table.contains("ts-clock"), "{table}");
    let refusal = scratch.onewrite(&format!("{run} raw.csv --fs raw")).fails_with(2);
    assert!(refusal.contains("--page-trace"), "{refusal}");
}

#[test]
fn workloads_of_the_dissertation_are_generated_by_seed() {
    let scratch = Scratch::new();
    let generate = |seed: u32, name: &str| {
        scratch.onewrite(&format!("trace generate mixed-applications {name} --scale 0.05 --seed {seed}")).ok();
        std::fs::read_to_string(scratch.path(name)).unwrap()
    };
    let (first, again, other) = (generate(1, "a.csv"), generate(1, "b.csv"), generate(2, "c.csv"));
    assert!(first == again && first != other);
    let json = scratch.onewrite("trace summarise a.csv --json -").ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["write_range_bytes"], 1702 * 4096, "133 MB, a twentieth");
    let refusal = scratch.onewrite("trace generate nonsense").fails_with(2);
    assert!(refusal.contains("file-server"), "{refusal}");
}

#[test]
fn a_memory_card_tells_its_merges() {
    let scratch = Scratch::new();
    scratch.write("t.csv", own_trace());
    let study = "cache t.csv --policy lru --size 64KiB --device ftl-16g --device-size 64MiB --ftl fast --age 96MiB";
    let table = scratch.onewrite(study).ok();
    assert!(table.contains("partial") && table.contains("full"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&scratch.onewrite(&format!("{study} --json -")).ok()).unwrap();
    let device = &json["cells"][0]["device"];
    assert_eq!(device["layer"]["ftl"], "fast");
    assert!(
        device["elapsed_seconds"].as_f64() > Some(0.0) && device["layer"]["full_merges"].as_u64() > Some(0),
        "{device}"
    );
}

#[test]
fn a_small_mapping_cache_costs_map_traffic() {
    let scratch = Scratch::new();
    scratch.write("t.csv", own_trace());
    let study = "cache t.csv --policy lru --size 64KiB --device ftl-16g --device-size 64MiB --ftl dftl --json -";
    let programs = |more: &str| {
        let text = scratch.onewrite(&format!("{study} {more}")).ok();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["cells"][0]["device"]["layer"]["map_programs"].as_u64().unwrap()
    };
    assert!(programs("--map-cache 64") > programs("--map-cache 1MiB"));
}

#[test]
fn each_translation_layer_amplifies_in_its_own_way() {
    let scratch = Scratch::new();
    let study = "device ftl-16g --block-utilization 100 --range 1GiB --ftl";
    let waf = |ftl: &str| scratch.onewrite(&format!("{study} {ftl}")).ok();
    assert!(waf("page").starts_with("1.000 ") && waf("fast --log-blocks 9").starts_with("1.000 "));
    let small = waf("dftl --map-cache 8KiB");
    assert!(small.starts_with("1.001 "), "a translation page for a block of data pages: {small}");
}

#[test]
fn traces_are_converted_cut_and_drawn() {
    let scratch = Scratch::new();
    scratch.write("spc", "0,8,8192,W,0.5\n0,0,4096,r,0.6\n0,0,4096,r,0.7\n");
    scratch.onewrite("trace convert spc pages.csv.gz --to pages").ok();
    scratch.onewrite("trace cut pages.csv.gz cut.csv --skip 1 --take 2 --to pages --no-times").ok();
    assert_eq!(std::fs::read_to_string(scratch.path("cut.csv")).unwrap(), "w,2\nr,0\n");
    scratch.onewrite("trace draw spc spc.svg --writes").ok();
    assert!(std::fs::read_to_string(scratch.path("spc.svg")).unwrap().starts_with("<svg"));
}

#[test]
fn bad_traces_and_names_are_refused_with_the_place_and_the_cure() {
    let scratch = Scratch::new();
    scratch.write("bad.csv", "r,1\nq,2\n");
    scratch.write("two", "1 0 0 8 1\n1 1 0 8 1\n");
    std::os::unix::fs::symlink("bad.csv", scratch.path("link.csv")).unwrap();
    for (command, word) in [
        ("cache bad.csv --policy lru", "bad.csv: line 2: "),
        ("cache bad.csv --policy lru,mru", "s3-fifo"),
        ("cache none.csv", "none.csv"),
        ("cache two --device ideal --log-blocks 3", "--ftl fast"),
        ("cache two --device ideal --ftl fast --map-cache 1MiB", "--ftl dftl"),
        ("cache two --device ideal --ftl dftl --map-cache 4", "8 bytes"),
        ("cache two --volume 0 --device hdd-barracuda --ftl fast", "hard disk"),
        ("cache bad.csv --size 0", "holds no page"),
        ("trace convert two out.csv", "--volume 0"),
        ("trace summarise bad.csv --page-size 0", "4096"),
        ("trace convert bad.csv bad.csv", "name another file"),
        ("trace convert bad.csv link.csv", "name another file"),
        ("trace draw bad.csv ./bad.csv", "name another file"),
        ("cache bad.csv --policy lru --after ./bad.csv", "name another file"),
        ("cache bad.csv --policy lru --after none/x.csv", "there is no directory none"),
        ("cache two --policy lru --volume 7", "no requests of volume 7"),
        ("cache two --device ideal --ftl bast --log-blocks 0", "one at least"),
        ("trace draw bad.csv x.svg", "line 2"),
    ] {
        let run = scratch.onewrite(command);
        assert!(run.code() == 2 && run.err().contains(word), "{command}: {}", run.err());
    }
}

#[test]
fn a_trace_that_breaks_off_leaves_no_file_and_the_source_as_it_was() {
    let scratch = Scratch::new();
    scratch.write("bad.csv", "r,1\nq,2\n");
    for command in ["trace convert bad.csv new.csv", "trace cut bad.csv new.csv.zst", "cache bad.csv --after new.csv"] {
        assert!(scratch.onewrite(command).fails_with(2).contains("line 2"), "{command}");
    }
    assert!(scratch.onewrite("cache bad.csv --after bad.csv --policy lru").fails_with(2).contains("name another file"));
    assert_eq!(std::fs::read_to_string(scratch.path("bad.csv")).unwrap(), "r,1\nq,2\n");
    assert_eq!(std::fs::read_dir(scratch.as_path()).unwrap().count(), 1, "the source alone");
}

/// Accesses to three disks within a second.
const DISKS: &str = "0,0,8192,w,0.5\n2,8,4096,r,0.75\n7,16,4096,w,1.0\n0,16,4096,r,1.5\n";

#[test]
fn convert_keeps_times_and_packs_volumes() {
    let scratch = Scratch::new();
    scratch.write("disks.spc", DISKS);
    assert!(scratch.onewrite("trace convert disks.spc one.csv").fails_with(2).contains("--pack"));
    scratch.onewrite("trace convert disks.spc packed.csv --pack").ok();
    let packed = std::fs::read_to_string(scratch.path("packed.csv")).unwrap();
    let lines =
        "op,offset,length,time\nw,0,8192,0\nr,16384,4096,250000000\nw,28672,4096,500000000\nr,8192,4096,1000000000\n";
    assert_eq!(packed, lines, "volume 0 has three pages, volume 2 two");
    scratch.onewrite("trace convert packed.csv pages.csv.zst --to pages").ok();
    scratch.onewrite("trace cut pages.csv.zst cut.csv --skip 2 --take 2 --to pages").ok();
    assert_eq!(std::fs::read_to_string(scratch.path("cut.csv")).unwrap(), "op,page,time\nr,4,0\nw,7,250000000\n");
    let json = |command: &str| -> serde_json::Value { serde_json::from_str(&scratch.onewrite(command).ok()).unwrap() };
    let found = json("trace summarise packed.csv pages.csv.zst --json -");
    for summary in [&found[0], &found[1]] {
        assert_eq!((&summary["duration_seconds"], &summary["footprint_bytes"]), (&1.0.into(), &(5 * 4096).into()));
    }
    assert_eq!((&found[0]["records"], &found[0]["write_records"]), (&4.into(), &2.into()));
    let packed = json("cache disks.spc --pack --policy lru --device ideal --size 16KiB --flash-block 16KiB --json -");
    assert_eq!(packed["cells"][0]["requests"], 5, "a device of 1 GiB holds the packed volumes");
}

#[test]
fn each_volume_is_summarised_and_cached_on_its_own() {
    let scratch = Scratch::new();
    scratch.write("disks.spc", DISKS);
    let table = scratch.onewrite("trace summarise disks.spc --each").ok();
    assert!(table.contains("disks.spc, volume 7") && table.lines().count() == 4, "{table}");
    let study =
        "cache disks.spc --each --policy lru --size 8KiB --flash-block 8KiB --device ideal --json - --after a.csv";
    let json: serde_json::Value = serde_json::from_str(&scratch.onewrite(study).ok()).unwrap();
    let found: Vec<(u64, u64)> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["volume"].as_u64().unwrap(), one["cells"][0]["requests"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, [(0, 3), (2, 1), (7, 1)]);
    assert!(scratch.path("a-7.csv").exists());
    let both = scratch.onewrite("cache disks.spc --each --volume 2").fails_with(2);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn a_timed_replay_keeps_the_pace_of_the_trace_and_tells_the_response() {
    let scratch = Scratch::new();
    scratch.write("disks.spc", DISKS);
    let study = "cache disks.spc --pack --policy lru --size 4KiB --flash-block 4KiB --device sata-850pro --json -";
    let device = |more: &str| {
        let json: serde_json::Value = serde_json::from_str(&scratch.onewrite(&format!("{study} {more}")).ok()).unwrap();
        json["cells"][0]["device"].clone()
    };
    let (fast, timed) = (device(""), device("--timed"));
    assert!(fast["elapsed_seconds"].as_f64() < Some(0.5) && fast["response_ns"].is_null(), "{fast}");
    assert!(timed["elapsed_seconds"].as_f64() >= Some(1.0), "{timed}");
    assert!(
        timed["response_ns"]["N"].as_u64() >= Some(2) && timed["response_ns"]["mean"].as_f64() < Some(1e7),
        "{timed}"
    );
    let table = scratch.onewrite(&study.replace("--json -", "--timed")).ok();
    assert!(table.contains("response"), "{table}");
    scratch.write("own.csv", own_trace());
    let refusal = scratch.onewrite("cache own.csv --device ideal --timed").fails_with(2);
    assert!(refusal.contains("no times"), "{refusal}");
    let refusal = scratch.onewrite("cache disks.spc --pack --device ftl-16g --ftl fast --timed").fails_with(2);
    assert!(refusal.contains("--ftl page"), "{refusal}");
}
