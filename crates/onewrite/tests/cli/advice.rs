//! Advice: following the advice of an error helps, and options without effect are refused.

use crate::support::Scratch;

/// A job with `count` empty files in one directory.
fn files(count: u32) -> String {
    format!("[a]\nioengine=filecreate\ncreate_on_open=1\nfallocate=none\nnrfiles={count}\nfilesize=4k\nopenfiles=1\n")
}

#[test]
fn a_job_of_many_files_gets_their_inodes_and_is_told_how_large_a_device_has_them() {
    let scratch = Scratch::new();
    scratch.write("many.fio", files(70_000));
    scratch.onewrite("run many.fio --host ideal --device ideal").ok();
    let refusal = scratch.onewrite("run many.fio --host ideal --device ideal --size 1G").fails_with(2);
    assert!(refusal.contains("inodes"), "{refusal}");
    let advice = refusal.split_once("bytes: ").and_then(|(_, rest)| rest.split_once(" gives")).unwrap().0;
    scratch.onewrite(&format!("run many.fio --host ideal --device ideal {advice}")).ok();
}

#[test]
fn what_would_do_nothing_is_refused_with_the_cure() {
    let scratch = Scratch::new();
    scratch.write("own.csv", "r,1\nw,2\nr,3\n");
    scratch.write("empty", "");
    scratch.write("head.csv", "op,page,time\n");
    scratch.write("one.fio", "; head\n\n[g]\nrw=write\nsize=1m\n");
    scratch.write("none.fio", "; head\n\n[g]\nrw=write\n");
    scratch.write("share.fio", "; head\n\n[g]\nrw=write\nsize=50%\n");
    for (command, word) in [
        ("run varmail --eviction-spot 1MiB", "ordered never pads; leave it out, or take --mode zp"),
        ("run one.fio --fs raw --eviction-spot 1MiB", "nothing pads"),
        ("compare varmail --modes ordered,data --eviction-spot 1MiB", "ordered, data never pads"),
        ("crash ace:1 --device ideal --eviction-spot 1MiB", "ordered never pads"),
        ("run varmail --device ftl-16g --ftl fast --log-blocks 100000", "100000 log blocks were asked for"),
        ("run varmail --device ftl-16g --ftl bast --log-blocks 100000", "100000 log blocks were asked for"),
        ("cache own.csv --policy lru --device ftl-16g --ftl fast --log-blocks 100000", "allow"),
        ("device ftl-16g --block-utilization 50 --range 1GiB --ftl fast --log-blocks 100000", "allow"),
        (
            "run one.fio --fs f2fs --mode data",
            "--mode: `data` is no mode of F2FS, which has no journal; there are adaptive and lfs",
        ),
        ("run one.fio --ipu 16", "--ipu is for F2FS; leave it out, or add --fs f2fs"),
        ("run one.fio --fs f2fs --mode lfs --ipu 16", "mode=lfs, which overwrites nothing; leave them out"),
        ("crash ace:1 --ipu 16", "--ipu is for F2FS"),
        ("run one.fio --fs f2fs --journal-size 8M", "--journal-size is for ext4, and the file system is f2fs"),
        ("run one.fio --fs f2fs --nodelalloc", "--nodelalloc is for ext4"),
        ("run one.fio --fs f2fs --eviction-spot 1MiB", "--eviction-spot is for ext4"),
        ("run one.fio --fsync-mode strict", "--fsync-mode strict is for F2FS; leave it out, or add --fs f2fs"),
        ("run one.fio --clean share", "--clean share is for F2FS; leave it out, or add --fs f2fs"),
        ("run one.fio --fs f2fs --clean share", "clean=share on sata-850pro: the device lacks SHARE"),
        ("crash ace:1 --clean share", "--clean is for F2FS"),
        ("crash ace:1 --fs f2fs --clean share --device sata-850pro", "the device lacks SHARE"),
        ("run innodb-linkbench --fs f2fs", "runs on ext4 so far"),
        ("compare varmail --modes f2fs+ordered", "it has no journal mode"),
        ("compare varmail --modes f2fs,f2fs", "f2fs twice"),
        ("crash ace:1 --states 0", "1 or more"),
        ("crash ace:1 --fs f2fs --mode data", "--mode: `data` is no mode of F2FS, which has no journal"),
        ("crash ace:1 --fs f2fs --journal-blocks 512", "--journal-blocks is for ext4"),
        ("crash ace:1 --fs f2fs --nodelalloc", "--nodelalloc is for ext4"),
        ("crash ace:1 --fsync-mode strict", "--fsync-mode is for F2FS; leave it out, or add --fs f2fs"),
        ("crash ace:1 --fs f2fs --size 32MiB", "F2FS takes 64 MiB to 16 TiB"),
        ("crash atomic:20 --fs f2fs --stage 256KiB", "staging area has not; leave --stage out"),
        ("crash shares:20 --fs f2fs", "shares pages of files, which F2FS cannot"),
        ("crash random:5 --size 17TiB", "judges whole images, of at most 16384 MiB"),
        ("crash random:5 --fs f2fs --stage 1TiB", "judges whole images, of at most 16384 MiB"),
        ("crash scarce:12", "which ext4 has not; add --fs f2fs"),
        ("crash full-log:12 --fs f2fs", "which F2FS has not"),
        ("run varmail --fs f2fs --device zns --clean share", "take a device that has it, such as nvme-share"),
        ("run varmail --fs f2fs --device zns --ftl dftl --clean share", "take a device that has it"),
        ("run varmail --runtime 0", "--runtime 0: nothing would be run"),
        ("run varmail --operations 0", "1 or more"),
        ("run varmail --files 0", "1 or more"),
        ("run varmail --threads 0", "1 or more"),
        ("run postmark --operations 0", "1 or more"),
        ("run varmail --threads 100000000", "--threads 100000000: take at most 65536"),
        ("run varmail --files 1000000000", "--files 1000000000: take at most 16777216"),
        ("run postmark --files 1000000000", "--files 1000000000: take at most 16777216"),
        ("run varmail --device none.img", "a new file has a slash: ./none.img"),
        ("paper afs-block-oj", "did you mean `afs-blocks-oj`?"),
        ("paper ts-clock --load-file none.txt", "none.txt"),
        ("run one.fio --set size=5T", "its files take 5497558138880 bytes"),
        ("run one.fio --set size=5T", "4TiB at most"),
        ("run none.fio", "none.fio:3: job [g]: size= is missing"),
        ("run share.fio", "share.fio:3: job [g]: size=N% needs filesize="),
        ("run one.fio --set bs=32m", "--set bs=32m: job [g]: size=1048576 is smaller"),
        ("run one.fio --section x", "one.fio: it has no section [x]; it has g"),
        ("trace cut own.csv z.csv --skip 99999999", "no record is left: the trace has 3"),
        ("trace cut own.csv z.csv --take 0", "--take 0 takes nothing"),
        ("trace summarise empty", "the trace is empty"),
        ("cache head.csv", "the trace is empty"),
        ("compare varmail --modes ordered,ordered", "ordered twice"),
        ("run varmail --cache-policy foo", "arc, s3-fifo, sieve"),
        ("run varmail --size 99999999999T", "is too large"),
        ("mkfs z.img --size 10PiB", "takes no file of that size"),
    ] {
        let refusal = scratch.onewrite(command);
        assert!(refusal.code() != 0 && refusal.err().contains(word), "{command}: {}", refusal.err());
        assert!(!scratch.path("z.csv").exists() && !scratch.path("z.img").exists(), "{command}");
    }
    let refusal = scratch.onewrite("run varmail --cache-policy belady").fails_with(2);
    assert!(!refusal.contains("sieve, belady"), "{refusal}");
    let refusal = scratch.onewrite("run one.fio --section x").fails_with(2);
    assert!(!refusal.contains(":0:"), "{refusal}");
}

#[test]
fn names_may_have_blanks_behind_their_commas() {
    let scratch = Scratch::new();
    let small = ["--operations", "200", "--files", "50", "--size", "128M", "--cuts", "0"];
    scratch.onewrite_with(&[&["compare", "varmail", "--modes", "ordered, data"][..], &small].concat()).ok();
    scratch.write("own.csv", "r,1\nw,2\nr,3\n");
    scratch.onewrite_with(&["cache", "own.csv", "--policy", "lru, arc", "--size", "64KiB, 128KiB"]).ok();
}

#[test]
fn volumes_far_apart_are_named_where_no_device_holds_them() {
    let scratch = Scratch::new();
    scratch.write("disks.csv", "1,hm,0,Write,8192,4096,1\n2,hm,1,Write,0,8192,1\n3,hm,1,Read,4096,4096,1\n");
    let study = "cache disks.csv --policy lru --size 64KiB --device ideal";
    let refusal = scratch.onewrite(study).fails_with(2);
    let parts = ["64 TiB apart", "--pack", "--each", "--volume"];
    assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
    for cure in ["--pack", "--each", "--volume 0", "--volume 1"] {
        scratch.onewrite(&format!("{study} {cure}")).ok();
    }
    let json = scratch.onewrite("trace summarise disks.csv --json -").ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["write_range_bytes"], 3 * 4096, "a page of one volume, two of the other");
}
