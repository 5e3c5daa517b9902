//! Runs and comparisons: figures, files and refusals.

use onewrite_testing::skipped;

use crate::support::Scratch;

const SMALL: &str = "varmail --operations 1500 --files 100 --size 256M";

#[test]
fn every_personality_is_cut_with_the_threads_that_it_has_by_itself() {
    let scratch = Scratch::new();
    for job in ["varmail", "fileserver", "webserver", "webproxy"] {
        let told = scratch.onewrite(&format!("compare {job} --operations 500 --modes ordered --cuts 2")).ok();
        assert!(told.contains("all 2 cuts kept"), "{job}: {told}");
    }
}

/// Its sections are whole, and many are spare.
#[test]
fn a_device_with_zones_is_large_enough_for_its_job() {
    let scratch = Scratch::new();
    scratch.write("large.fio", "[a]\nrw=randwrite\nbs=4k\nsize=1g\nio_size=60m\nfsync=32\n");
    for device in ["ocssd-huawei", "zns"] {
        scratch.onewrite(&format!("run large.fio --fs f2fs --device {device}")).ok();
    }
}

#[test]
fn a_run_prints_its_figures_and_its_defaults() {
    let scratch = Scratch::new();
    let run = scratch.onewrite("run varmail --operations 500 --files 100");
    assert!(run.ok().contains("varmail on sata-850pro (emulated, 1 GiB, new, not aged), seed 1"), "{}", run.out());
    let said = run.err();
    assert!(
        ["mode ordered (promises data)", "67108864 bytes", "host default", "seed 1"]
            .iter()
            .all(|part| said.contains(part)),
        "{said}"
    );
}

#[test]
fn json_on_standard_output_stands_alone_and_is_the_same_each_time() {
    let scratch = Scratch::new();
    let run = || scratch.onewrite(&format!("run {SMALL} --mode data --seed 9 --json -")).ok();
    let first = run();
    let json: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(json["onewrite"]["fs"]["mode"], "data");
    assert!(first == run());
}

#[test]
fn a_fio_job_runs_on_the_device_itself() {
    let scratch = Scratch::new();
    scratch.write("job.fio", "[w]\nrw=randwrite\nbs=16k\nsize=4m\nfsync=8\n");
    scratch.onewrite("run job.fio --fs raw --device ideal --size 64M --json out.json --trace trace.csv").ok();
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(scratch.path("out.json")).unwrap()).unwrap();
    assert_eq!(json["jobs"][0]["write"]["total_ios"], 256);
    assert_eq!(json["onewrite"]["device"]["host_write_bytes"], 4 << 20);
    let trace = std::fs::read_to_string(scratch.path("trace.csv")).unwrap();
    assert_eq!(trace.lines().nth(1), Some("0,0,counters-begin,0,0,metadata,false"), "there is no mkfs");
    assert_eq!(trace.lines().filter(|line| line.contains(",write,")).count(), 256);
}

#[test]
fn a_run_on_a_real_disk_leaves_a_clean_image() {
    let scratch = Scratch::new();
    scratch.write("job.fio", "[w]\nrw=randwrite\nsize=4m\nfsync=32\nverify=crc32c\n");
    let json = scratch.onewrite("run job.fio --device ./disk.img --size 64M --json -").ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["onewrite"]["virtual_seconds"].is_null() && json["onewrite"]["wall_seconds"].as_f64().unwrap() > 0.0);
    assert!(scratch.onewrite("fsck -n disk.img").ok().contains("clean"));
    let refusal = scratch.onewrite("run job.fio --device ./disk.img").fails_with(2);
    assert!(refusal.contains("ext4") && refusal.contains("--force"), "{refusal}");
}

#[test]
fn a_comparison_gives_a_table_a_page_and_images() {
    let scratch = Scratch::new();
    let table =
        scratch.onewrite(&format!("compare {SMALL} --modes ordered,data --cuts 3 --images img --json all.json")).ok();
    assert!(table.contains("all 3 cuts kept") && table.contains("fsync p99.9"), "{table}");
    let page = std::fs::read_to_string(scratch.path("onewrite-report.html")).unwrap();
    assert!(page.contains("onewrite compare varmail --operations 1500") && page.contains("<svg"));
    for mode in ["ordered", "data"] {
        assert!(scratch.onewrite(&format!("fsck -n img/{mode}.img")).ok().contains("clean"));
    }
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(scratch.path("all.json")).unwrap()).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 2);
}

#[test]
fn f2fs_is_run_and_compared_beside_ext4() {
    let scratch = Scratch::new();
    let table = scratch.onewrite(&format!("compare {SMALL} --modes ordered,f2fs+strict --cuts 3 --images img")).ok();
    assert!(table.contains("f2fs+strict") && table.contains("checkpoint"), "{table}");
    assert_eq!(table.matches("all 3 cuts kept").count(), 2, "{table}");
    assert!(scratch.onewrite("fsck -n img/f2fs+strict.img").ok().contains("clean"));
    let run = "run varmail --operations 500 --files 50 --fs f2fs --fsync-mode strict --page-trace p.csv --json -";
    let json: serde_json::Value = serde_json::from_str(&scratch.onewrite(run).ok()).unwrap();
    assert_eq!(json["onewrite"]["settings"]["mode"], "f2fs+strict");
    assert!(json["onewrite"]["fs"]["cleaning"]["segments"].is_u64());
    assert!(std::fs::read_to_string(scratch.path("p.csv")).unwrap().lines().count() > 100);
}

#[test]
fn every_refusal_names_place_and_cure() {
    let scratch = Scratch::new();
    scratch.write("bad.fio", "[a]\nsize=1m\nzonemode=zbd\n");
    scratch.write("good.fio", "[a]\nsize=1m\n");
    scratch.write("profile", "name = 'mine'\n");
    let cases = [
        ("run nothing.fio", "neither a job file nor one of varmail"),
        ("run bad.fio", "bad.fio:3: `zonemode`: `zbd` needs a device of zones"),
        ("run good.fio --threads 4", "--threads is for varmail"),
        ("run varmail --device sata-851", "sata-850pro"),
        ("run varmail --mode fast", "writeback, ordered, soj, zp, data"),
        ("run varmail --mode adaptive", "add --fs f2fs"),
        ("run varmail --operations -5", "invalid value '-5' for '--operations"),
        ("run varmail --cache-size 100TiB", "--cache-size: the page cache takes at most 512 GiB"),
        ("run varmail --device ./profile", "a profile's name ends in .toml"),
        ("run varmail --fs f2fs --size 1GiB --stage 2GiB", "a smaller --stage or a larger --size"),
        ("paper ts-clock --list", "it stands alone, as `onewrite paper ts-clock`"),
        ("paper ts-clock --scale 0.01", "these traces take 0.0301 to 1"),
        ("run varmail --mode sdj", "use `data`, or a device with SHARE"),
        ("run varmail --mode ordered+async", "use `data+async`"),
        ("run good.fio --fs raw --mode data", "--mode data needs a file system"),
        ("run varmail --fs raw", "--fs ext4"),
        ("run varmail --host nobody", "onewrite host measure"),
        ("run fileserver --size 64M", "no space"),
        ("run fileserver --size 64M", "the device has 67108864 bytes: --size"),
        ("run good.fio --section b", "no section [b]; it has a"),
        ("run good.fio --set iodept=3", "did you mean `iodepth`?"),
        ("run varmail --set size=1m", "--set is for job files"),
        ("crash ace:1 --section a", "--section is for job files"),
        ("paper no-such-row", "onewrite paper --list"),
        ("paper cal-ocssd-read", "cannot be run: the profile"),
        ("paper --list fig-99", "no row and no figure"),
        ("paper results afs-soj-oj", "stands alone"),
        ("paper afs-blocks-oj --seed 2", "onewrite paper ts-clock"),
        ("paper table-3", "002-table-3 or 003-table-3"),
        ("paper --list --html page.html", "leave --list out"),
        ("paper --list --markdown rows.md", "leave --list out"),
        ("paper results --markdown rows.md", "print Markdown by themselves"),
        ("crash swarm:40 --thorough-every 0", "0 is not in 1.."),
        ("crash ace:1 --thorough-every 3", "leave it out for ace:1"),
        ("crash swarm:40 --faults --thorough-every 3", "leave it out for --faults"),
        ("paper afs-blocks-oj --short", "onewrite paper results"),
        ("probe ideal --max 0", "begins with 65536 bytes"),
        ("run varmail --json none/x.json", "there is no directory none"),
        ("run varmail --trace .", "name a file in it"),
        ("compare varmail --html none/x.html", "there is no directory none"),
        ("crash ace:2 --json none/x.json", "there is no directory none"),
        ("device ideal --json none/x.json", "there is no directory none"),
    ];
    for (arguments, words) in cases {
        let refusal = scratch.onewrite(arguments).fails_with(2);
        assert!(refusal.contains(words), "{arguments}: {refusal}");
    }
    assert!(scratch.onewrite("run varmail --size 12q").fails_with(2).contains("not a size"));
}

#[test]
fn profiles_and_hosts_are_shown() {
    let scratch = Scratch::new();
    assert!(scratch.onewrite("device").ok().contains("sata-850pro"));
    assert!(scratch.onewrite("device ideal").ok().contains("a power cut"));
    let host = scratch.onewrite("host show").ok();
    scratch.write("host.toml", host);
    scratch.onewrite("run varmail --operations 100 --files 50 --size 256M --host host.toml").ok();
}

#[test]
fn a_log_that_is_asked_for_has_room_on_a_device_that_is_not() {
    Scratch::new().onewrite("run varmail --operations 10 --journal-size 10G").ok();
}

#[test]
fn jobs_behind_each_other_have_one_rate() {
    let scratch = Scratch::new();
    let fast = "[fast]\nstonewall\nrw=write\nrate_iops=1000\nstartdelay=4\n";
    scratch.write("both.fio", format!("[global]\nsize=8m\nbs=4k\n[slow]\nrw=randwrite\nfsync=1\n{fast}"));
    let run = scratch.onewrite("run both.fio --json -").ok();
    let json: serde_json::Value = serde_json::from_str(&run).unwrap();
    let milliseconds: u64 =
        json["jobs"].as_array().unwrap().iter().map(|job| job["job_runtime"].as_u64().unwrap()).sum();
    let (rate, expected) = (json["onewrite"]["operations_per_second"].as_f64().unwrap(), 4096e3 / milliseconds as f64);
    // A sync behind the last write belongs to it; a second between two groups is nobody's.
    assert!((rate / expected - 1.0).abs() < 0.05, "{rate} {expected}");
}

/// A database that leaves out what protects it says so where a power cut would meet it.
#[test]
fn a_database_without_protection_is_told() {
    let scratch = Scratch::new();
    let note = "a power cut may leave a part";
    let sqlite = ("sqlite-gmail:off", ":delete", "sdj --device nvme-share");
    for (job, cure, mode) in [("innodb-sysbench:single", ":double", "data"), sqlite] {
        let run = |mode: &str| scratch.onewrite(&format!("run {job} --operations 50 --mode {mode}")).ok();
        let (risky, safe) = (run("ordered"), run(mode));
        assert!(risky.contains(note) && risky.contains(cure) && !safe.contains(note), "{risky}\n{safe}");
    }
}

#[test]
fn a_database_without_fdatasync_syncs_times_too() {
    let scratch = Scratch::new();
    let commits = |job: &str| {
        let run = scratch.onewrite(&format!("run {job} --operations 200 --json -")).ok();
        let json: serde_json::Value = serde_json::from_str(&run).unwrap();
        assert!(json["onewrite"]["total"]["sync"]["total_ios"].as_u64().unwrap() > 0, "{job}");
        json["onewrite"]["fs"]["commits"].as_u64().unwrap()
    };
    let (fdatasync, fsync) = (commits("sqlite-gmail:wal"), commits("sqlite-gmail:wal:fsync"));
    assert!(fsync > 2 * fdatasync, "{fsync} {fdatasync}");
    commits("innodb-sysbench");
}

#[test]
fn this_machine_can_be_measured() {
    let scratch = Scratch::new();
    let measured = scratch.onewrite("host measure");
    if measured.code() != 0 && measured.err().contains("O_DIRECT") {
        skipped!("no O_DIRECT in the temporary directory");
        return;
    }
    scratch.write("host.toml", measured.ok());
    assert!(scratch.onewrite("host show host.toml").ok().contains("syscall_ns"));
    assert_eq!(std::fs::read_dir(scratch.as_path()).unwrap().count(), 1, "the scratch file is gone");
}

#[test]
fn paper_stands_beside_measured() {
    let scratch = Scratch::new();
    let shown = scratch.onewrite("paper afs-blocks-oj afs-blocks-dj").ok();
    assert_eq!(shown.matches("agrees; holds on ram").count(), 2, "{shown}");
    assert!(
        shown.contains("kind                   agree") && shown.contains("exact                      2"),
        "{shown}"
    );
    let list = scratch.onewrite("paper --list").ok();
    assert!(list.lines().count() > 100);
    assert!(list.contains("cannot be run: the profile ocssd-huawei states this time itself"), "{list}");
}

#[test]
fn the_rows_of_a_figure_run_together_and_one_that_differs_ends_with_1() {
    let scratch = Scratch::new();
    let shown = scratch.onewrite("paper fig-3-3 --html page.html --markdown rows.md").ok();
    let rows = std::fs::read_to_string(scratch.path("rows.md")).expect("the table");
    assert!(
        rows.contains("3 agree, 0 winner alone, 0 direction only") && rows.contains("| `afs-blocks-dj`: block writes"),
        "{rows}"
    );
    assert_eq!(
        (shown.matches("agrees").count(), shown.lines().last()),
        (3, Some("3 agree, 0 winner alone, 0 direction only, 0 inputs, 0 differ, 0 failed, 0 not run"))
    );
    let page = std::fs::read_to_string(scratch.path("page.html")).unwrap();
    assert!(
        page.contains("<h2>000-fig-3-3</h2>")
            && page.contains("<code>afs-blocks-sdj</code>")
            && page.contains("viewport")
    );
    let list = scratch.onewrite("paper --list").ok();
    let lines: Vec<&str> = list.lines().collect();
    let figure = lines.iter().position(|line| *line == "000-fig-3-3").unwrap();
    assert!(lines[figure + 1].contains("afs-blocks-oj") && lines[figure + 3].contains("afs-blocks-sdj"), "{list}");
    let heads: Vec<&str> = lines.into_iter().filter(|line| !line.starts_with(' ')).collect();
    assert!(heads.iter().position(|head| *head == "002-fig-9") < heads.iter().position(|head| *head == "002-fig-12"));
    let differs = scratch.onewrite("paper zp-varmail-notrim-oj");
    assert_eq!(differs.code(), 1, "{}", differs.out());
    let counted = "0 agree, 0 winner alone, 0 direction only, 0 inputs, 1 differ, 0 failed, 0 not run\n";
    assert!(differs.out().contains("DIFFERS") && differs.out().ends_with(counted), "{}", differs.out());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_and_a_full_disk_is() {
    let scratch = Scratch::new();
    let program = env!("CARGO_BIN_EXE_onewrite");
    let Some(head) = scratch.other("bash", &format!("-c {program}${{IFS}}paper${{IFS}}--list|head${{IFS}}-1")) else {
        return;
    };
    assert_eq!((head.ok().lines().count(), head.err().as_str()), (1, ""));
    for command in ["paper --list", "device", "device ideal", "host show", "run varmail --operations 50 --json -"] {
        let mut program = std::process::Command::new(program);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = program.args(command.split_whitespace()).stdout(full).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(3) && said.contains("No space left"), "{command}: {said}");
    }
}

#[test]
fn a_limit_of_few_files_is_told_at_once() {
    let program = env!("CARGO_BIN_EXE_onewrite");
    for (command, code) in [("run varmail --operations 10", 3), ("names modes", 3), ("fsck a.img", 8)] {
        for files in [6, 31] {
            let shell = format!("ulimit -n {files}; {program} {command}");
            let ended = std::process::Command::new("bash").args(["-c", &shell]).output().unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            assert!(ended.status.code() == Some(code) && said.contains("`ulimit -n 32`"), "{shell}: {said}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_whole_is_not_left() {
    let scratch = Scratch::new();
    // A limit on the size of files simulates a full disk.
    let limited = |options: &str| {
        let program = env!("CARGO_BIN_EXE_onewrite");
        let run = format!("trap '' XFSZ; ulimit -f 8; {program} run varmail --operations 2000 --files 50 {options}");
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &run]).current_dir(scratch.as_path()).output().unwrap()
    };
    for (option, file) in [("--trace", "a.csv"), ("--page-trace", "b.csv"), ("--image", "c.img"), ("--json", "d.json")]
    {
        let ended = limited(&format!("{option} {file}"));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(3) && said.contains(file), "{option}: {said}");
        assert!(!scratch.path(file).exists(), "{option}");
    }
}

const CARD_JOB: &str = "[w]\nrw=randwrite\nbs=4k\nsize=256m\ndirect=1\nioengine=psync\ntime_based\nruntime=20\n";

/// Writes random 4 KiB blocks on a card for a second; returns the rate and the JSON of the run.
fn card(scratch: &Scratch, options: &str) -> (f64, serde_json::Value) {
    let command = format!("run card.fio --fs raw --device microsd-adata --size 512M {options} --json -");
    let json: serde_json::Value = serde_json::from_str(&scratch.onewrite(&command).ok()).unwrap();
    (json["jobs"][0]["write"]["iops"].as_f64().unwrap(), json["onewrite"].clone())
}

#[test]
fn a_card_runs_on_its_own_translation_layer_and_is_as_slow_as_that() {
    let scratch = Scratch::new();
    scratch.write("card.fio", CARD_JOB);
    let (own, said) = card(&scratch, "--age filled");
    assert_eq!(said["settings"]["setup"], serde_json::json!({ "ftl": "fast", "age": "filled" }));
    assert!(said["device"]["full_merges"].as_u64().unwrap() > 10 && said["device"]["erases"].as_u64().unwrap() > 10);
    let (page, said) = card(&scratch, "--ftl page");
    assert_eq!(said["settings"]["setup"], serde_json::json!({ "ftl": "page", "age": "none" }));
    let (more, _) = card(&scratch, "--age filled --log-blocks 16");
    let (bast, _) = card(&scratch, "--precondition filled --ftl bast");
    let (dftl, _) = card(&scratch, "--ftl dftl --map-cache 64K");
    let all = [own, page, more, bast, dftl];
    assert!(page > 900.0 && own < 300.0 && own < more && bast < own / 5.0 && dftl > own, "{all:?}");
}

#[test]
fn a_table_says_whether_the_device_was_new_and_an_aged_one_pays_at_once() {
    let scratch = Scratch::new();
    scratch.write("card.fio", "[w]\nrw=randwrite\nsize=32m\nfsync=64\n");
    let waf = |options: &str, words: &str| -> f64 {
        let table = scratch.onewrite(&format!("run card.fio --size 64M {options} --json run.json")).ok();
        assert!(table.contains(words), "{words}: {table}");
        let json = std::fs::read(scratch.path("run.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        json["onewrite"]["device"]["waf"].as_f64().unwrap()
    };
    let new = waf("", "sata-850pro (emulated, 64 MiB, new, not aged), seed 1");
    let aged = waf("--age steady", "sata-850pro (emulated, 64 MiB, aged by random writes), seed 1");
    assert!(aged > 1.2 * new, "{new} new, {aged} aged");
    waf("--device microsd-adata", "microsd-adata (emulated, 64 MiB, FTL fast, new, not aged), seed 1");
    let table = scratch
        .onewrite("compare card.fio --modes ordered,data --size 64M --device microsd-adata --age filled --cuts 4");
    let (table, page) = (table.ok(), std::fs::read_to_string(scratch.path("onewrite-report.html")).unwrap());
    assert!(table.contains("64 MiB, FTL fast, filled once before") && table.contains("all 4 cuts kept"), "{table}");
    assert!(page.contains("FTL fast, filled once before"));
}

#[test]
fn a_layer_or_an_age_that_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    for (options, why) in [
        ("--device hdd-barracuda --ftl fast", "no translation layer"),
        ("--device hdd-barracuda --age steady", "leave --age out"),
        ("--device ./disk.img --age filled", "write to it before instead"),
        ("--device ./disk.img --ftl fast", "its own translation layer"),
        ("--log-blocks 4", "--log-blocks belongs to"),
        ("--device microsd-adata --map-cache 1M", "--map-cache belongs to --ftl dftl"),
    ] {
        let said = scratch.onewrite(&format!("run {SMALL} {options}"));
        assert!(said.code() != 0 && said.err().contains(why), "{options}: {}", said.err());
        assert!(!scratch.path("disk.img").exists());
    }
    let said = scratch.onewrite("crash ace:1 --ftl bast");
    assert!(said.code() != 0 && said.err().contains("belong to --device"), "{}", said.err());
}

#[test]
fn the_command_line_shortens_and_changes_a_job_file() {
    let scratch = Scratch::new();
    scratch.write("job.fio", "[a]\nrw=write\nsize=8m\n[b]\nrw=write\nsize=8m\ntime_based\nruntime=900\nrate=1m\n");
    let run = scratch.onewrite("run job.fio --device ideal --section b --runtime 2s --set rw=randwrite --json -").ok();
    let json: serde_json::Value = serde_json::from_str(&run).unwrap();
    assert_eq!(json["jobs"].as_array().unwrap().len(), 1);
    let written = json["jobs"][0]["write"]["io_bytes"].as_u64().unwrap();
    assert!((2 << 20..=(2 << 20) + 8192).contains(&written), "{written} bytes in 2 s at 1 MiB a second");
    scratch.onewrite("crash job.fio --section a --set size=16k --states 20").ok();
}

#[test]
fn a_device_without_a_size_is_as_large_as_the_job_needs() {
    let scratch = Scratch::new();
    scratch.write("job.fio", "[a]\nrw=write\nsize=3g\nnumber_ios=16\n");
    let run = scratch.onewrite("run job.fio --device ideal");
    run.ok();
    assert!(run.err().contains(", 4160749568 bytes ("), "3 GiB, a quarter more, a journal and a step: {}", run.err());
    scratch.write("small.fio", "[a]\nrw=write\nsize=900m\nnumber_ios=16\n");
    let run = scratch.onewrite("run small.fio --device ideal");
    run.ok();
    assert!(run.err().contains(", 1073741824 bytes ("), "{}", run.err());
    let told = scratch.onewrite("run job.fio --device ideal --size 1G").fails_with(2);
    assert!(told.contains("no space") && told.contains("--size 3968M gives the job room"), "{told}");
}

#[test]
fn a_depth_that_keeps_a_latency_is_told_and_one_that_none_keeps_ends_with_1() {
    let scratch = Scratch::new();
    let job =
        "rw=randread\nsize=64m\ndirect=1\nioengine=libaio\niodepth=32\nlatency_window=50ms\nlatency_percentile=95\n";
    scratch.write("job.fio", format!("[reads]\n{job}"));
    let run = |target: &str| scratch.onewrite(&format!("run job.fio --set latency_target={target} --json out.json"));
    let table = run("1ms").ok();
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(scratch.path("out.json")).unwrap()).unwrap();
    let depth = json["jobs"][0]["latency_depth"].as_u64().unwrap();
    assert!((2..32).contains(&depth), "{depth}");
    assert!(json["jobs"][0]["read"]["clat_ns"]["percentile"]["95.000000"].as_u64().unwrap() <= 1_000_000);
    assert!(table.contains(&format!("reads: latency_target: depth {depth} keeps 95 %")), "{table}");
    let failed = run("1us --set latency_percentile=100").fails_with(1);
    assert!(failed.contains("reads: latency_target was not kept: a read with nothing else under way took"), "{failed}");
}

/// The command of docs/jobs.md, shorter, with all other defaults.
#[test]
fn jobs_of_databases_are_compared() {
    let scratch = Scratch::new();
    for job in ["sqlite-gmail", "sqlite-androbench:wal"] {
        let compared =
            scratch.onewrite(&format!("compare {job} --modes ordered,sdj --device nvme-share --operations 60"));
        assert!(compared.ok().contains("sdj"), "{}", compared.out());
    }
}

/// A run of a database keeps its variant, and counts what it made durable: a rollback journal syncs thrice a
/// transaction, a write-ahead log once.
#[test]
fn a_run_of_sqlite_keeps_its_journal_mode_and_counts_its_syncs() {
    let scratch = Scratch::new();
    let result = |job: &str| -> serde_json::Value {
        let run = format!("run {job} --mode ordered --device nvme-share --operations 60 --json -");
        serde_json::from_str(&scratch.onewrite(&run).ok()).unwrap()
    };
    let syncs = |found: &serde_json::Value| found["onewrite"]["total"]["sync"]["total_ios"].as_u64().unwrap();
    let (wal, delete) = (result("sqlite-gmail:WAL"), result("sqlite-gmail:delete"));
    assert_eq!(
        (&wal["onewrite"]["job"], &delete["onewrite"]["job"]),
        (&"sqlite-gmail:wal".into(), &"sqlite-gmail:delete".into())
    );
    assert!(syncs(&wal) > 10 && syncs(&delete) > 2 * syncs(&wal), "{} {}", syncs(&wal), syncs(&delete));
    assert_eq!(result("sqlite-gmail")["onewrite"]["job"], "sqlite-gmail");
}
