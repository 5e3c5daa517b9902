//! Runs and comparisons: figures, files and refusals.

use crate::support::Scratch;

const SMALL: &str = "varmail --operations 1500 --files 100 --size 256M";

#[test]
fn a_run_prints_its_figures_and_its_defaults() {
    let scratch = Scratch::new();
    let run = scratch.onewrite("run varmail --operations 500 --files 100");
    assert!(run.ok().contains("varmail on sata-850pro (emulated, 1 GiB), seed 1"), "{}", run.out());
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
    let refusal = scratch.onewrite("run job.fio --device ./disk.img").fails_with(1);
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
fn every_refusal_names_place_and_cure() {
    let scratch = Scratch::new();
    scratch.write("bad.fio", "[a]\nsize=1m\nzonemode=zbd\n");
    scratch.write("good.fio", "[a]\nsize=1m\n");
    let cases = [
        ("run nothing.fio", "neither a job file nor one of varmail"),
        ("run bad.fio", "bad.fio:3: key `zonemode`"),
        ("run good.fio --threads 4", "--threads is for varmail"),
        ("run varmail --device sata-851", "sata-850pro"),
        ("run varmail --mode fast", "writeback, ordered, soj, zp, data"),
        ("run varmail --mode sdj", "use `data`, or a device with SHARE"),
        ("run varmail --mode ordered+async", "use `data+async`"),
        ("run good.fio --fs raw --mode data", "--mode data needs a file system"),
        ("run varmail --fs raw", "--fs ext4"),
        ("run varmail --host nobody", "onewrite host measure"),
        ("run fileserver --size 64M", "no space"),
        ("paper no-such-row", "onewrite paper --list"),
        ("paper ldj-git", "cannot be run yet"),
        ("paper afs-blocks-oj --html page.html", "onewrite paper ts-clock"),
        ("paper afs-blocks-oj --short", "onewrite paper results"),
        ("probe ideal --max 0", "begins with 65536 bytes"),
        ("run varmail --json none/x.json", "there is no directory none"),
        ("run varmail --trace .", "name a file in it"),
        ("compare varmail --html none/x.html", "there is no directory none"),
        ("crash ace:2 --json none/x.json", "there is no directory none"),
        ("device ideal --json none/x.json", "there is no directory none"),
    ];
    for (arguments, words) in cases {
        let refusal = scratch.onewrite(arguments).fails_with(1);
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
fn this_machine_can_be_measured() {
    let scratch = Scratch::new();
    let measured = scratch.onewrite("host measure");
    if measured.code() != 0 && measured.err().contains("O_DIRECT") {
        eprintln!("SKIPPED: no O_DIRECT in the temporary directory");
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
    assert_eq!(shown.matches("agrees").count(), 2, "{shown}");
    assert!(scratch.onewrite("paper --list").ok().lines().count() > 100);
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
        assert!(ended.status.code() == Some(1) && said.contains("No space left"), "{command}: {said}");
    }
}

#[test]
fn a_file_that_cannot_be_written_whole_is_not_left() {
    let scratch = Scratch::new();
    // A limit on the size of files stands for a full disk.
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
        assert!(ended.status.code() == Some(1) && said.contains(file), "{option}: {said}");
        assert!(!scratch.path(file).exists(), "{option}");
    }
}
