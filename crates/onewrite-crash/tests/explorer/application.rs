//! Application: recorded runs of a small program, whose losses are known.

use std::cell::Cell;
use std::rc::Rc;

use onewrite_block::{Executor, MIB};
use onewrite_crash::{
    Application, ApplicationReport, ExploreOptions, Ext4Subject, Purpose, Recorder, RecoveredTree, Subject,
    explore_application,
};
use onewrite_fs::{Content, FileSystem, FsResult, Manner, NewNode, Position};

fn subject(mode: &str) -> Ext4Subject {
    Ext4Subject::new(mode.parse().unwrap())
}

fn options() -> ExploreOptions {
    ExploreOptions { size_bytes: 16 * MIB, ..ExploreOptions::default() }
}

/// Writes three files in turn, syncs each if `syncs`, and acknowledges each.
async fn program<F: FileSystem>(fs: &F, syncs: bool, mark: impl Fn(u64)) -> FsResult<()> {
    for number in 0..3_u64 {
        let name = format!("f{number}");
        let ino = fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?;
        fs.write(ino, Position::At(0), Content::Bytes(&[b'a' + number as u8; 5000]), Manner::default()).await?;
        if syncs {
            fs.fsync(ino).await?;
        }
        mark(number);
    }
    fs.unmount().await
}

fn recorded(mode: &str, syncs: bool) -> Application {
    let (subject, options) = (subject(mode), options());
    let (recorder, device) = Recorder::new(&subject, &options).unwrap();
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    let mark = recorder.marker();
    let done = executor.block_on(async move {
        let fs = subject.mount(port, options.mounting(Purpose::Run)).await?;
        program(&fs, syncs, mark).await
    });
    done.unwrap().unwrap();
    recorder.finish((0..3).map(|number| number.to_string()).collect())
}

/// Whether every acknowledged file is whole, read from the directory that a check would get.
fn whole(tree: &RecoveredTree, acknowledged: &[String]) -> Result<(), String> {
    thread_local!(static COUNT: Cell<u64> = const { Cell::new(0) });
    let count = COUNT.replace(COUNT.get() + 1);
    let thread = std::thread::current().name().unwrap_or_default().replace(':', "-");
    let room = std::env::temp_dir().join(format!("onewrite-application-{}-{thread}-{count}", std::process::id()));
    std::fs::create_dir(&room).unwrap();
    tree.lay_out(&room, &["lost+found"]).unwrap();
    let judged = acknowledged.iter().try_for_each(|number| {
        let content = std::fs::read(room.join(format!("f{number}"))).map_err(|error| format!("f{number}: {error}"))?;
        let expected = vec![b'a' + number.parse::<u8>().unwrap(); 5000];
        if content == expected { Ok(()) } else { Err(format!("f{number}: {} bytes, not as written", content.len())) }
    });
    std::fs::remove_dir_all(room).unwrap();
    judged
}

fn explored(mode: &str, application: &Application, options: &ExploreOptions) -> ApplicationReport {
    let mut check = |tree: &RecoveredTree, acknowledged: &[String]| Ok(whole(tree, acknowledged));
    explore_application(subject(mode), application, options, &mut check, &|_, _| ()).unwrap()
}

#[test]
fn a_program_that_syncs_before_it_acknowledges_is_sound() {
    for mode in ["ordered", "data", "sdj"] {
        let report = explored(mode, &recorded(mode, true), &options());
        assert!(report.failure.is_none() && report.refused == 0, "{mode}: {report:?}");
        assert!(report.states > 50 && report.checks >= 4, "{mode}: {report:?}");
    }
}

#[test]
fn a_program_that_acknowledges_too_early_is_found_at_its_first_lie() {
    let report = explored("ordered", &recorded("ordered", false), &options());
    let failure = report.failure.expect("nothing was synced");
    assert_eq!((failure.acknowledged.as_slice(), report.refused), (&["0".to_owned()][..], 1));
    assert!(failure.complaint.starts_with("f0: "), "{}", failure.complaint);
    assert!(failure.tree.is_some() && failure.image.pages() == 16 * MIB / 4096);
}

#[test]
fn lost_writes_that_do_not_matter_are_put_back() {
    // Only the last file matters here, so a failure needs no other loss.
    let application = recorded("data+async", true);
    let refused = Rc::new(Cell::new(0));
    let count = Rc::clone(&refused);
    let mut check = move |tree: &RecoveredTree, acknowledged: &[String]| {
        let is_lost = whole(tree, &["2".to_owned()]).is_err() && acknowledged.len() == 2;
        count.set(count.get() + u32::from(is_lost));
        Ok(if is_lost { Err("f2 is not there".to_owned()) } else { Ok(()) })
    };
    let report = explore_application(subject("data+async"), &application, &options(), &mut check, &|_, _| ()).unwrap();
    let failure = report.failure.unwrap();
    assert!(failure.lost.len() <= 1, "{:?}", failure.lost);
    assert!(refused.get() >= 1);
}

#[test]
fn the_same_recording_gives_the_same_report_and_a_bound_spreads_the_states() {
    let application = recorded("ordered", true);
    let told = |report: &ApplicationReport| format!("{report:?}");
    let (one, other) = (explored("ordered", &application, &options()), explored("ordered", &application, &options()));
    assert_eq!(told(&one), told(&other));
    let few = ExploreOptions { states_max: one.possible / 4, ..options() };
    let last = Rc::new(Cell::new(0));
    let seen = Rc::clone(&last);
    let mut check = move |tree: &RecoveredTree, acknowledged: &[String]| {
        seen.set(seen.get().max(acknowledged.len()));
        Ok(whole(tree, acknowledged))
    };
    let report = explore_application(subject("ordered"), &application, &few, &mut check, &|_, _| ()).unwrap();
    assert!(report.states < one.states / 2 && report.states > one.states / 8, "{report:?} of {one:?}");
    assert_eq!(last.get(), 3, "the end of the run was not reached");
}
