//! Canaries: known-bad variants of the file system. The explorer catches each within 10,000 states, from each of three
//! seeds, and the sound file system passes the same states.
//!
//! They are injected only through public traits: ways to commit (`strategies`), devices that disobey between file
//! system and disk (`layers`, `skipper`), and wrong operations (`wrapped`, `drafts`, `shares`).

mod drafts;
mod layers;
mod shares;
mod skipper;
mod strategies;
mod wrapped;

use std::sync::Mutex;

use onewrite_block::{Device, DevicePort, Geometry, Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, Explorer, Ext4Subject, Mounting, Promise, Subject, Workload,
    WorkloadSpec, crash, replay,
};
use onewrite_device::Profile;
use onewrite_fs::FsResult;
use onewrite_fs::ext4::{Ext4, Mode};
use onewrite_fs::journal::{Commit, Streams};

const SEEDS: [u64; 3] = [1, 2, 3];
/// Number of canaries.
const CANARIES: usize = 25;

/// A row for each canary that was caught; printed when all were.
static CAUGHT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The outcome for one seed: the broken promise, the number of states until then, and the states that the sound file
/// system passed.
type Catch = (Promise, u64, u64);

/// Notes that a canary was caught from every seed; the last one prints the table.
fn tell(name: &str, catches: &[Catch]) {
    let cells = catches.iter().map(|(promise, state, sound)| {
        let broken = format!("{promise:?} at {state}");
        format!(" | {broken:20} {sound:>6}")
    });
    let mut rows = CAUGHT.lock().expect("no canary panicked in here");
    rows.push(format!("{name:52}{}", cells.collect::<String>()));
    if rows.len() == CANARIES {
        rows.sort();
        let seeds = SEEDS.map(|seed| format!(" | seed {seed}: broke at    sound"));
        println!("\n{:52}{}\n{}", "canary", seeds.concat(), rows.join("\n"));
    }
}

/// Puts a device between a file system and its disk.
type Layer = fn(Box<dyn Device>) -> Box<dyn Device>;

/// ext4 with a part replaced.
#[derive(Clone, Copy, Default)]
struct Canary {
    commit: Option<fn() -> Box<dyn Commit>>,
    layer: Option<Layer>,
    recovery_layer: Option<Layer>,
}

impl Alter<Ext4Subject> for Canary {
    async fn mount(&self, sound: &Ext4Subject, port: DevicePort, mounting: Mounting) -> FsResult<Ext4> {
        let commit = self.commit.map_or_else(|| sound.mode.commit(), |commit| commit());
        Ext4::mount_with(port, sound.mount_options(mounting), commit).await
    }

    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        match self.layer {
            Some(layer) => layer(disk),
            None => disk,
        }
    }

    fn recovery_layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        match self.recovery_layer {
            Some(layer) => layer(disk),
            None => disk,
        }
    }
}

/// Options that commit and checkpoint often, on a disk without FUA. States alone must show what is wrong.
fn options(seed: u64) -> ExploreOptions {
    let options = ExploreOptions::default();
    ExploreOptions {
        seed,
        states_max: 10_000,
        e2fsck_every: 0,
        reads_mounted: false,
        cache_pages: 256,
        commit_interval: Nanos::from_millis(50),
        checkpoint_age: Nanos::from_millis(200),
        geometry: Geometry { fua: false, ..options.geometry.clone() },
        ..options
    }
}

/// ext4 without delayed allocation: the behaviour of a canary then follows from the script alone.
fn at_once(mode: Mode) -> Ext4Subject {
    Ext4Subject { delayed_allocation: false, ..Ext4Subject::new(mode) }
}

/// Explores `spec` until a promise is broken, the workloads end, or there are 10,000 states.
fn broken<S: Subject>(subject: S, spec: &WorkloadSpec, options: &ExploreOptions) -> (Option<Promise>, u64) {
    let workloads = spec.workloads(&subject, options.seed);
    let mut explorer = Explorer::new(subject, options);
    for workload in workloads {
        explorer.explore(&workload).expect("the run");
        if explorer.is_done() {
            break;
        }
    }
    let report = explorer.into_report();
    (report.violations.first().map(|violation| violation.promise), report.states)
}

/// Asserts that the canary is caught and that the sound file system passes the same states.
fn assert_caught<A: Alter<Ext4Subject> + Clone>(name: &str, change: &A, sound: Ext4Subject, spec: &str) {
    assert_caught_with(name, change, sound, spec, options);
}

/// Like [`assert_caught`], with the canary's own options.
fn assert_caught_with<A: Alter<Ext4Subject> + Clone>(
    name: &str,
    change: &A,
    sound: Ext4Subject,
    spec: &str,
    options: fn(u64) -> ExploreOptions,
) {
    let spec: WorkloadSpec = spec.parse().expect("workload");
    let catches = SEEDS.map(|seed| {
        let options = options(seed);
        let (promise, state) = broken(Altered { sound, change: change.clone() }, &spec, &options);
        let promise = promise.unwrap_or_else(|| panic!("{name}, seed {seed}: not caught in {state} states"));
        let (wrong, states) = broken(sound, &spec, &options);
        assert_eq!(wrong, None, "{name}, seed {seed}: the sound file system, state {states}");
        (promise, state, states)
    });
    tell(name, &catches);
}

/// The name of a workload in text form.
fn script(text: &str) -> String {
    text.parse::<Workload>().expect("workload");
    format!("script:{text}")
}

const SYNCING: &str = "create /a; write /a 0 9000 1; fsync /a; append /a 5000 2; fsync /a; rename /a /b; sync; \
                       mkdir /d; create /d/c; write /d/c 0 20000 3; fsync /d/c; unlink /b; sync";

#[test]
fn commit_block_before_its_blocks() {
    let canary = Canary { commit: Some(|| Box::new(strategies::CommitFirst)), ..Canary::default() };
    assert_caught("commit block before its blocks", &canary, Ext4Subject::new(Mode::Ordered), &script(SYNCING));
}

#[test]
fn no_flush_after_the_commit_block() {
    let canary = Canary { commit: Some(|| Box::new(strategies::NoLastFlush)), ..Canary::default() };
    assert_caught("no flush after the commit block", &canary, Ext4Subject::new(Mode::Data), &script(SYNCING));
}

#[test]
fn no_revoke_records() {
    // Directories take single blocks; twenty of them, once freed, leave room for one piece of a file.
    let all = |what: &str| (0..20).map(|number| format!("{what} /d{number}")).collect::<Vec<_>>().join("; ");
    let text = format!(
        "{}; sync; {}; sync; pause 20; create /f; write /f 0 28000 5; fsync /f; create /g; append /g 28000 6; fsync /g",
        all("mkdir"),
        all("rmdir"),
    );
    let canary = Canary { commit: Some(|| Box::new(strategies::NoRevokes)), ..Canary::default() };
    assert_caught("no revoke records", &canary, Ext4Subject::new(Mode::Ordered), &script(&text));
}

#[test]
fn ordered_without_data_before_commit() {
    let canary = Canary { layer: Some(layers::late_data), ..Canary::default() };
    let spec = script("create /a; write /a 0 30000 1; create /b; write /b 0 9000 2; pause 60; append /a 5000 3; sync");
    assert_caught("ordered without data before commit", &canary, Ext4Subject::new(Mode::Ordered), &spec);
}

/// The zeros behind the new end are content, too: without them the file grows by what was cut off.
#[test]
fn a_truncation_durable_before_the_zeros_behind_it() {
    let canary = Canary { layer: Some(layers::late_data), ..Canary::default() };
    let spec = script("create /a; append /a 9000 1; sync >> truncate /a 5000; truncate /a 9500; pause 120");
    assert_caught("truncation durable before the zeros behind it", &canary, Ext4Subject::new(Mode::Ordered), &spec);
}

#[test]
fn log_space_freed_before_home_blocks_are_durable() {
    let canary = Canary { layer: Some(layers::late_home), ..Canary::default() };
    assert_caught(
        "log space freed before home blocks are durable",
        &canary,
        Ext4Subject::new(Mode::Ordered),
        &script(SYNCING),
    );
}

#[test]
fn checkpoint_entry_dropped_when_a_newer_version_is_only_running() {
    tell("checkpoint entry dropped while a newer is running", &SEEDS.map(|seed| skipper::caught(Mode::Data, seed)));
}

#[test]
fn pair_dropped_when_a_newer_version_is_only_running() {
    tell("SHARE pair dropped while a newer is running", &SEEDS.map(|seed| skipper::caught(Mode::Sdj, seed)));
}

#[test]
fn tail_moved_before_share() {
    let canary = Canary { layer: Some(layers::late_share), ..Canary::default() };
    assert_caught("tail moved before SHARE", &canary, Ext4Subject::new(Mode::Sdj), &script(SYNCING));
}

/// Recovery that trusts every frame that decompresses, as the LDJ papers describe, recovers torn transactions (false
/// recovery).
#[test]
fn frames_known_by_their_length_only() {
    // None of these writes compresses, so LZ4 does not notice a missing part of the stream.
    let writes = (1..20).map(|number| format!("write /a 0 60000 {}; fsync /a", 4 * number)).collect::<Vec<_>>();
    let spec = script(&format!("create /a; {}", writes.join("; ")));
    let canary = Canary { commit: Some(|| Box::new(Streams)), ..Canary::default() };
    assert_caught("frames known by their length only", &canary, Ext4Subject::new(Mode::Ldj), &spec);
}

#[test]
fn freed_block_reused_before_the_freeing_commit() {
    let text = "create /a; write /a 0 40000 1 >> unlink /a; pause 120; create /b; write /b 0 200000 2; pause 120; \
                create /c; pause 120";
    let canary = Canary { commit: Some(|| Box::<strategies::Lagging>::default()), ..Canary::default() };
    assert_caught("freed block reused before the freeing commit", &canary, at_once(Mode::Ordered), &script(text));
}

#[test]
fn recovery_not_idempotent() {
    let canary = Canary { recovery_layer: Some(layers::early_empty_log), ..Canary::default() };
    let options = |seed| ExploreOptions { nested_every: 1, ..options(seed) };
    assert_caught_with("recovery not idempotent", &canary, Ext4Subject::new(Mode::Data), &script(SYNCING), options);
}

/// In a mode that pads, a cut inside a device makes the state; its recovery is cut at the door of the disk.
#[test]
fn recovery_not_idempotent_after_a_cut_inside_a_device() {
    let make = |pages: u64| -> Box<dyn PowerCut> {
        let profile = Profile::load("sata-850pro").expect("profile");
        profile.device(Some(pages * PAGE_SIZE as u64)).expect("device")
    };
    let sound = Ext4Subject::new("zp-data".parse().expect("mode"));
    let options = options(1).on(make(8192).geometry());
    let options = ExploreOptions { nested_every: 1, ..options };
    let plan = CrashPlan { device: Some(&make), ..CrashPlan::new(&options) };
    let workload: Workload = SYNCING.parse().expect("workload");
    let change = Canary { recovery_layer: Some(layers::early_empty_log), ..Canary::default() };
    let canary = Altered { sound, change };
    let found = crash(canary, [workload.clone()], plan, |_| ()).expect("the run");
    let violation = found.violations.first().unwrap_or_else(|| panic!("not caught: {found:?}"));
    assert!(violation.state.starts_with("cut:") && violation.state.contains('>'), "{violation:#?}");
    let again = replay(canary, &workload, &violation.state, plan).expect("replayed");
    assert_eq!(again.violations.first().map(|again| &again.what), Some(&violation.what));
    // The sound recovery may not have this event.
    if let Ok(report) = replay(sound, &workload, &violation.state, plan) {
        assert!(report.is_sound(), "{:#?}", report.violations);
    }
    let beyond = format!("{}>9999:", violation.state);
    let refusal = replay(canary, &workload, &beyond, plan).expect_err("no such event").to_string();
    assert!(refusal.contains("no such state"), "{refusal}");
}

#[test]
fn fsync_that_returns_early() {
    let spec = "random:40";
    assert_caught("fsync that returns early", &wrapped::EarlyFsync, Ext4Subject::new(Mode::Data), spec);
}

#[test]
fn an_old_page_of_another_file_becomes_a_hole() {
    let spec = script("create /a; append /a 9000 1; sync >> create /b; append /b 100 2; fsync /b");
    assert_caught("an old page becomes a hole", &wrapped::LostPage, Ext4Subject::new(Mode::Ordered), &spec);
}

#[test]
fn rename_that_is_not_atomic() {
    let spec = script("create /a; write /a 0 9000 1; create /b; sync >> rename /a /b; sync");
    assert_caught("rename that is not atomic", &wrapped::TornRename, Ext4Subject::new(Mode::Ordered), &spec);
}

#[test]
fn truncate_without_orphan_entry() {
    let files = ["/a", "/b", "/c", "/d"];
    let make: Vec<String> = files.iter().map(|file| format!("create {file}")).collect();
    let rounds = (0..40).flat_map(|_| files.iter().map(|file| format!("append {file} 4096 1")));
    let setup: Vec<String> = make.into_iter().chain(rounds).collect();
    let cuts = files.iter().map(|file| format!("truncate {file} 0; pause 3")).collect::<Vec<_>>().join("; ");
    let syncs: Vec<String> = (0..12).map(|number| format!("create /s{number}; fsync /s{number}")).collect();
    let text = format!("{} >> {cuts} | {}", setup.join("; "), syncs.join("; "));
    let canary = Canary { commit: Some(|| Box::new(strategies::NoOrphans)), ..Canary::default() };
    assert_caught("truncate without orphan entry", &canary, at_once(Mode::Ordered), &script(&text));
}

/// Content of two files in two drafts that are committed together; a draft that is aborted.
const DRAFTING: &str = "create /a; append /a 9000 1; create /b; append /b 20000 2; sync >> \
                        draft 0 write /a 4096 12000 3; draft 1 truncate /b 100; create /p; fsync /p; commit 0 1; \
                        draft 0 write /a 0 4096 4; draft 1 append /b 9000 5; append /p 5000 6; fsync /p; abort 0 1; \
                        append /p 5000 7; fsync /p; draft 0 append /a 7000 8; draft 1 write /b 0 50 9; commit 1 0; \
                        sync";

#[test]
fn a_group_split_over_two_transactions() {
    let (sound, spec) = (Ext4Subject::new(Mode::Data), script(DRAFTING));
    assert_caught("a group of drafts split over two transactions", &drafts::SplitGroup, sound, &spec);
}

#[test]
fn a_size_changed_before_the_commit_of_its_draft() {
    let (sound, spec) = (Ext4Subject::new(Mode::Data), script(DRAFTING));
    assert_caught("a size changed before the commit of its draft", &drafts::EarlySize, sound, &spec);
}

#[test]
fn an_aborted_page_written_back() {
    let (sound, spec) = (Ext4Subject::new(Mode::Ldj), script(DRAFTING));
    assert_caught("an aborted page written back", &drafts::WrittenAborts, sound, &spec);
}

#[test]
fn a_commit_of_drafts_that_returns_early() {
    let (sound, spec) = (Ext4Subject::new(Mode::Sdj), script(DRAFTING));
    assert_caught("a commit of drafts that returns early", &drafts::EarlyCommit, sound, &spec);
}

/// Random workloads find each of them, too.
#[test]
fn random_drafts_catch_what_a_script_catches() {
    fn caught<A: Alter<Ext4Subject>>(change: A) -> Option<Promise> {
        broken(Altered { sound: Ext4Subject::new(Mode::Data), change }, &atomic(40), &options(1)).0
    }
    assert_eq!(caught(drafts::SplitGroup), Some(Promise::Steps));
    assert_eq!(caught(drafts::EarlySize), Some(Promise::Steps));
    assert_eq!(caught(drafts::WrittenAborts), Some(Promise::Steps));
}

fn atomic(actions: usize) -> WorkloadSpec {
    format!("atomic:{actions}").parse().expect("workload")
}

/// `/a` has a content at home and a newer one in the log, `/b` one in the log; pages of both are shared, over pages and
/// behind the end of `/c` and `/d`.
const SHARING: &str = "create /a; append /a 12288 1; create /b; append /b 12288 2; create /c; create /d; sync; \
                       pause 300; write /a 0 8192 3; write /b 0 12288 4; sync; share /a 0 /b 4096 8192; create /p; \
                       fsync /p; share /b 0 /c 0 4096 /a 0 /d 0 8192; append /p 5000 5; fsync /p; \
                       write /a 0 12288 6; fsync /a; share /a 8192 /b 0 4096 /a 0 /d 4096 4096; append /p 100 7; sync";

#[test]
fn log_versions_of_targets_left_when_pages_are_shared() {
    let canary = Canary { layer: Some(layers::late_tail), ..Canary::default() };
    let sound = Ext4Subject::new(Mode::Data);
    assert_caught("log versions of targets left when pages are shared", &canary, sound, &script(SHARING));
}

#[test]
fn a_map_that_says_written_before_the_share() {
    let canary = Canary { layer: Some(layers::late_application_share), ..Canary::default() };
    let sound = Ext4Subject::new(Mode::Ordered);
    assert_caught("a map that says written before the SHARE", &canary, sound, &script(SHARING));
}

#[test]
fn a_source_shared_from_its_stale_home_block() {
    let canary = Canary { layer: Some(shares::stale_source), ..Canary::default() };
    let sound = Ext4Subject::new(Mode::Data);
    assert_caught("a source shared from its stale home block", &canary, sound, &script(SHARING));
}

#[test]
fn a_call_split_into_two_shares() {
    let spec = script(SHARING);
    assert_caught("a call split into two SHAREs", &shares::SplitShare, Ext4Subject::new(Mode::Sdj), &spec);
}

#[test]
fn a_share_that_returns_early() {
    let spec = script(SHARING);
    assert_caught("a share that returns early", &shares::EarlyShare, Ext4Subject::new(Mode::Ordered), &spec);
}

/// Random workloads find each of them, too, whatever the mode promises.
#[test]
fn random_shares_catch_what_a_script_catches() {
    fn caught<A: Alter<Ext4Subject>>(mode: Mode, change: A) -> Option<Promise> {
        let spec: WorkloadSpec = "shares:60".parse().expect("workload");
        broken(Altered { sound: Ext4Subject::new(mode), change }, &spec, &options(1)).0
    }
    let layered = |layer| Canary { layer: Some(layer), ..Canary::default() };
    assert_eq!(caught(Mode::Ordered, shares::SplitShare), Some(Promise::Content));
    assert_eq!(caught(Mode::Data, shares::SplitShare), Some(Promise::Steps));
    assert!(caught(Mode::Ordered, shares::EarlyShare).is_some());
    assert!(caught(Mode::Sdj, shares::EarlyShare).is_some());
    assert!(caught(Mode::Data, layered(layers::late_tail)).is_some());
    assert!(caught(Mode::Data, layered(shares::stale_source)).is_some());
}
