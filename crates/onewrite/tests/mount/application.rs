//! Application: `onewrite crash --run … --check …` on programs whose losses are known.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use onewrite_testing::skipped;

use crate::support::{Mounted, pause, refusal, text};

/// What an exploration found: `None`, or what it printed.
fn explore(place: &Mounted, run: &str, check: &str, options: &[&str]) -> Option<String> {
    let kept = place.beside("kept");
    let _ = fs::remove_dir_all(&kept);
    let mut arguments = vec!["crash", "--run", run, "--check", check, "--states", "1000000", "--keep", "kept"];
    arguments.extend(options);
    let output = place.onewrite(&arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => {
            assert!(told.contains("violations: none") && !kept.exists(), "{told}");
            None
        }
        Some(1) => Some(told),
        other => panic!("{other:?}: {told}"),
    }
}

const RENAMES: &str = "for i in 1 2 3; do echo content$i > f.tmp; SYNC; mv f.tmp f$i; echo x > g; sync g; done";
const WHOLE: &str = "for f in f?; do test ! -e $f || grep -q content $f || exit 1; done";

#[test]
fn a_rename_without_fsync_is_found_with_all_that_is_needed_to_look_at_it() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let told = explore(&place, &RENAMES.replace("SYNC", "true"), WHOLE, &["--mode", "ordered"]).unwrap();
    assert!(told.contains("BROKEN Application") && told.contains("violations: Application 1"), "{told}");
    let again = told.lines().find_map(|line| line.strip_prefix("check again: ")).unwrap();
    let again = Command::new("sh").args(["-c", again]).current_dir(place.beside("")).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    // The image is the one before recovery: it recovers to the same tree.
    let listed = text(&place.onewrite(&["ls", "kept/image"]));
    let tree = fs::read_dir(place.beside("kept/tree")).unwrap().count();
    assert_eq!(listed.lines().filter(|name| *name != "lost+found").count(), tree);
    text(&place.onewrite(&["fsck", "-p", "kept/image"]));
}

#[test]
fn the_same_program_with_fsync_is_sound_and_so_is_the_wrong_one_where_content_is_journaled() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let right = RENAMES.replace("SYNC", "sync f.tmp");
    assert_eq!(explore(&place, &right, WHOLE, &["--mode", "ordered"]), None);
    assert_eq!(explore(&place, &RENAMES.replace("SYNC", "true"), WHOLE, &["--mode", "data"]), None);
}

#[test]
fn what_is_acknowledged_on_either_descriptor_has_to_be_there() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let check = r#"for name in $(cat "$ONEWRITE_ACKED"); do test -e $name || { echo no $name; exit 1; }; done"#;
    for descriptor in ["", " >&3"] {
        let program = format!("touch a; sync .; echo 'onewrite: acked a'{descriptor}; sync a");
        assert_eq!(explore(&place, &program, check, &[]), None, "{descriptor}");
        let early = format!("touch a; echo 'onewrite: acked a'{descriptor}; sleep 0.01; sync a");
        let told = explore(&place, &early, check, &["--commit-interval", "1s"]).unwrap();
        assert!(told.contains("no a") && told.contains("acknowledged: up to a"), "{told}");
    }
}

/// The program of the next test: this one, run by the explorer.
#[test]
#[ignore = "a part of the next test"]
fn acknowledges_by_a_call() {
    let directory = std::env::var_os("ONEWRITE_DIR").expect("onewrite crash --run starts it");
    fs::File::create(Path::new(&directory).join("a")).unwrap();
    if std::env::var_os("EARLY").is_none() {
        fs::File::open(directory).unwrap().sync_all().unwrap();
    }
    // What this program prints without a newline is another open file's.
    print!("half a line, ");
    onewrite_host::acked("a").unwrap();
    pause(10);
}

/// It is the line of the program that it stands for: noted before the call returns, no sooner.
#[test]
fn what_is_acknowledged_by_a_call_has_to_be_there() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let program = std::env::current_exe().unwrap();
    let run = format!("'{}' --ignored --exact application::acknowledges_by_a_call --nocapture", program.display());
    let check = r#"for name in $(cat "$ONEWRITE_ACKED"); do test -e $name || { echo no $name; exit 1; }; done"#;
    assert_eq!(explore(&place, &run, check, &["--commit-interval", "1s"]), None);
    let told = explore(&place, &format!("EARLY=1 {run}"), check, &["--commit-interval", "1s"]).unwrap();
    assert!(told.contains("no a") && told.contains("acknowledged: up to a"), "{told}");
    assert_eq!(onewrite_host::acked("a").unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

/// A token is noted before the write of its line returns.
#[test]
fn what_a_program_does_after_an_acknowledgement_is_never_there_without_it() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let check = r#"for name in *; do test "$name" = '*' || grep -qx $name "$ONEWRITE_ACKED" || exit 1; done"#;
    for descriptor in ["", " >&3", " >/dev/stdout"] {
        let program = format!("for i in $(seq 12); do echo 'onewrite: acked '$i{descriptor}; touch $i; sync .; done");
        assert_eq!(explore(&place, &program, check, &[]), None, "{descriptor}");
        let late = format!("touch 1; sync .; echo 'onewrite: acked 1'{descriptor}");
        assert!(explore(&place, &late, check, &[]).is_some(), "{descriptor}");
    }
}

/// The run lasts until the last process has closed its standard output.
#[test]
fn a_process_in_the_background_may_still_acknowledge() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let program = "touch a; sync .; (sleep 0.3; printf 'onewrite: acked a') & true";
    let told = explore(&place, program, "! grep -q a \"$ONEWRITE_ACKED\"", &[]).unwrap();
    assert!(told.contains("acknowledged: up to a"), "{told}");
}

#[test]
fn the_next_run_removes_what_a_killed_run_left() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let mut killed = Command::new(env!("CARGO_BIN_EXE_onewrite"))
        .args(["crash", "--run", "echo $$ > id; sleep 60", "--check", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let room = Path::new("/dev/shm").join(format!("onewrite-crash-{}", killed.id()));
    let id = (0..500).find_map(|_| {
        pause(20);
        fs::read_to_string(room.join("mnt/id")).ok().filter(|id| id.ends_with('\n'))
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(room.exists(), "it had no time to remove its directory");
    assert_eq!(explore(&place, "true", "true", &[]), None);
    assert!(!room.exists(), "{}", room.display());
    let ended = Command::new("pkill").args(["-P", id.unwrap().trim()]).status().unwrap();
    assert!(ended.success(), "the program of the killed run was still there");
}

const SQLITE: &str = r#"
import os, sqlite3, sys
journal, synchronous = sys.argv[1:]
db = sqlite3.connect("db", isolation_level=None)
db.execute(f"pragma journal_mode={journal}")
db.execute("pragma synchronous=full")
db.execute("create table t(k integer primary key, v text)")
for path in ("db", "."):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
print("onewrite: acked 0", flush=True)
db.execute(f"pragma synchronous={synchronous}")
for k in range(1, 7):
    db.execute("begin")
    db.execute("insert into t values(?, hex(randomblob(600)))", (k,))
    db.execute("update t set v = v || 'x' where k % 3 = 0")
    db.execute("commit")
    print("onewrite: acked", k, flush=True)
"#;

/// Rows that were acknowledged must be there; before table and file were synced, anything may be.
const SQLITE_CHECK: &str = r#"
import os, sqlite3, sys
acked = open(os.environ["ONEWRITE_ACKED"]).read().split()
if not acked:
    sys.exit(0)
db = sqlite3.connect("db")
try:
    sound = db.execute("pragma integrity_check").fetchone()[0]
    rows = db.execute("select count(*) from t").fetchone()[0]
except sqlite3.DatabaseError as error:
    sys.exit(f"damaged: {error}")
if sound != "ok":
    sys.exit(f"damaged: {sound}")
if rows < int(acked[-1]):
    sys.exit(f"lost: {rows} rows of {acked[-1]}")
"#;

/// SQLite's documentation (pragma synchronous): EXTRA also syncs the directory after a rollback journal is deleted;
/// FULL in DELETE mode does not, so a commit may roll back. NORMAL in WAL mode may lose commits. OFF promises nothing.
#[test]
fn sqlite_loses_what_its_documentation_admits_and_nothing_else() {
    let Some(place) = Mounted::unmounted(16) else { return };
    fs::write(place.beside("run.py"), SQLITE).unwrap();
    fs::write(place.beside("check.py"), SQLITE_CHECK).unwrap();
    let room = place.beside("").display().to_string();
    let found = |journal: &str, synchronous: &str| {
        let (run, check) =
            (format!("python3 {room}/run.py {journal} {synchronous}"), format!("python3 {room}/check.py"));
        explore(&place, &run, &check, &[])
    };
    for (journal, synchronous) in [("delete", "extra"), ("truncate", "full"), ("persist", "full"), ("wal", "full")] {
        assert_eq!(found(journal, synchronous), None, "{journal} {synchronous}");
    }
    for (journal, synchronous) in [("delete", "full"), ("wal", "normal")] {
        let told = found(journal, synchronous).expect("a commit may be lost");
        assert!(told.contains("lost: ") && !told.contains("damaged"), "{journal} {synchronous}: {told}");
    }
    for journal in ["delete", "wal"] {
        assert!(found(journal, "off").is_some(), "{journal} off promises nothing");
    }
}

/// The kernel delays allocation, so a commit may contain the name of a file whose content was never written.
#[test]
fn the_kernels_ext4_is_judged_by_the_same_means() {
    let Some(place) = Mounted::unmounted(16) else { return };
    if !Command::new("losetup").arg("-f").output().is_ok_and(|found| found.status.success()) {
        skipped!("this machine attaches no loop devices");
        return;
    }
    let wrong = RENAMES.replace("SYNC", "true");
    let told = explore(&place, &wrong, WHOLE, &["--kernel", "data=ordered"]).expect("no fsync before the rename");
    assert!(told.contains("BROKEN Application"), "{told}");
    assert_eq!(explore(&place, &RENAMES.replace("SYNC", "sync f.tmp"), WHOLE, &["--kernel", "data=ordered"]), None);
    assert_eq!(explore(&place, &wrong, WHOLE, &["--kernel", "data=journal"]), None);
    let refused = place.onewrite(&["crash", "--kernel", "data=nonsense", "--run", "true", "--check", "true"]);
    assert!(refusal(&refused, 2).contains("--kernel data=nonsense"));
    for options in ["data=ordered", "data=nonsense"] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_onewrite"));
        program.args(["crash", "--kernel", options, "--run", "true", "--check", "true"]).stderr(Stdio::null());
        let mut explorer = program.spawn().unwrap();
        explorer.wait().unwrap();
        let room = format!("onewrite-crash-{}", explorer.id());
        assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(&room), "{options}: a mount stays");
        assert!(!Path::new("/dev/shm").join(room).exists(), "{options}: its directory stays");
    }
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let told = |arguments: &[&str]| refusal(&place.onewrite(&[&["crash"], arguments].concat()), 2);
    assert!(told(&["--run", "exit 3", "--check", "true"]).contains("--run ended with exit status: 3"));
    assert!(told(&["--run", "true"]).contains("--check"));
    assert!(told(&["random:5", "--run", "true", "--check", "true"]).contains("cannot be used with"));
    assert!(told(&["--run", "true", "--check", "true", "--keep", "mnt"]).contains("--keep mnt: it exists"));
    assert!(told(&[]).contains("required"));
    for check in ["no-such-program", "/dev/null"] {
        assert!(told(&["--run", "echo x > f", "--check", check]).contains("it did not judge"), "{check}");
    }
    let silent = place.onewrite(&["crash", "--run", "echo x > f", "--check", "true"]);
    assert!(String::from_utf8_lossy(&silent.stderr).contains("without an acknowledgement"), "{silent:?}");
}
