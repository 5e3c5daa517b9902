//! Tests `soj`, `sdj` and `sdj+async` on an image on a file system with reflinks. The process is killed at any moment,
//! or the host loses its power, again and again on the same image. Each time every acknowledged step is there, whoever
//! recovers.
//!
//! ```text
//!   child: step ─► fsync ─► "acked 17 …" ─► step …      killed ─► onewrite fsck | mount, by SHARE | e2fsck ─► judged
//! ```

#[path = "../../../onewrite-device/tests/host_mount/mod.rs"]
mod host_mount;
mod steps;

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use host_mount::{Host, HostMount, pause};
use onewrite_block::Choices;
use onewrite_fs::ext4::{Mode, Scope};
use steps::{Acknowledged, Found, now, read_image, run_for_ever};

const MODES: [Mode; 3] = [Mode::Soj, Mode::Sdj, Mode::SdjAsync];
const CHILD_VARIABLE: &str = "ONEWRITE_REFLINK_TEST_CHILD";

#[test]
#[ignore = "the other half of the tests that kill it"]
fn child_that_will_be_killed() {
    if let Ok(text) = std::env::var(CHILD_VARIABLE) {
        let [mode, first, image] = text.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
        run_for_ever(Path::new(image), mode.parse().unwrap(), first.parse().unwrap());
    }
}

/// A child process at work.
struct AtWork {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl AtWork {
    fn new(image: &Path, mode: Mode, first: u64) -> AtWork {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "child_that_will_be_killed"])
            .env(CHILD_VARIABLE, format!("{mode} {first} {}", image.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        AtWork { child, output }
    }

    /// The next acknowledgement; `None` if the child has ended.
    fn next(&mut self) -> Option<Acknowledged> {
        let mut output = self.output.by_ref().map_while(Result::ok);
        // With one test thread the name of the test precedes the first line.
        output.find_map(|line| line.split_once("acked ").map(|(_, rest)| rest.parse().unwrap()))
    }

    /// Kills the child. Returns its further acknowledgements.
    fn kill(mut self) -> Vec<Acknowledged> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The child is killed.
    Killed,
    /// The child is killed; then the host loses its power, and with it what the child left in the host's memory.
    KilledAndPowerCut,
    /// The host loses its power while the child works.
    PowerCut,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        // It has ended already, unless a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program that recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recoverer {
    /// A mount in the same mode, which recovers by SHARE.
    Mount,
    /// `onewrite fsck`, which recovers by copying.
    Fsck,
    /// `e2fsck` first, on a copy whose content must be right too.
    E2fsck,
}

struct Study {
    mount: HostMount,
    image: PathBuf,
    mode: Mode,
    chance: Choices,
    /// The last acknowledged step of each file.
    acked: [u64; steps::FILES as usize],
    /// Steps acknowledged after the host had begun to stop. The host may report success for an `fdatasync` that the
    /// stop overtook; a machine without power reports nothing.
    too_late: Vec<u64>,
    /// Work of all children.
    done: Acknowledged,
    /// Number of the late steps that are lost.
    lost_late: u64,
    shared_by_recovery: u64,
    rounds_with_shared_blocks: u64,
}

impl Study {
    fn new(host: Host, mode: Mode, seed: u64) -> Option<Study> {
        let mount = HostMount::new(host, &format!("reflink-{host:?}-{mode}-{seed}"))?;
        let image = mount.path("a.img");
        assert_eq!(onewrite(&["mkfs", text(&image), "--size", "64M"]).0, 0);
        Some(Study {
            mount,
            image,
            mode,
            chance: Choices::new(seed).stream(mode.name(), host as u64),
            acked: [0; steps::FILES as usize],
            too_late: Vec::new(),
            done: Acknowledged::default(),
            lost_late: 0,
            shared_by_recovery: 0,
            rounds_with_shared_blocks: 0,
        })
    }

    /// Lets a child work from step `first` on, and ends it at a random moment.
    fn work_and_end(&mut self, first: u64, end: End) {
        let mut at_work = AtWork::new(&self.image, self.mode, first);
        let wanted = 10 + self.chance.below(120);
        let mut last = (0..wanted).map_while(|_| at_work.next()).inspect(|acked| self.acknowledge(acked)).last();
        assert!(last.is_some_and(|last| last.step + 1 == first + wanted), "{}: the child ended: {last:?}", self.mode);
        pause(Duration::from_micros(self.chance.below(4_000)));
        let stopped_at = if end == End::PowerCut { now() } else { u64::MAX };
        if end == End::PowerCut {
            self.mount.stop();
        }
        for acked in at_work.kill() {
            if acked.at < stopped_at {
                self.acknowledge(&acked)
            } else {
                self.too_late.push(acked.step)
            }
            last = Some(acked);
        }
        if end == End::KilledAndPowerCut {
            self.mount.stop();
        }
        if end != End::Killed {
            self.mount.start();
        }
        self.done.add(&last.expect("just seen"));
    }

    fn acknowledge(&mut self, acked: &Acknowledged) {
        self.acked[(acked.step % steps::FILES) as usize] = acked.step;
    }

    /// Runs one round. Returns the step after the last one on the disk.
    fn round(&mut self, first: u64, end: End, recoverer: Recoverer) -> u64 {
        self.work_and_end(first, end);
        self.rounds_with_shared_blocks += u64::from(self.mount.has_shared_blocks(&self.image));
        let place = format!("{} from step {first}, {end:?}, {recoverer:?}", self.mode);
        match recoverer {
            Recoverer::Mount => (),
            Recoverer::Fsck => {
                let (code, said) = onewrite(&["fsck", text(&self.image)]);
                assert!(code == 0 && said.contains("clean"), "{place}: {said}");
            }
            Recoverer::E2fsck => self.judge_e2fsck(&place),
        }
        let (found, recovered) = read_image(&self.image, self.mode).unwrap_or_else(|error| panic!("{place}: {error}"));
        self.shared_by_recovery += recovered.map_or(0, |recovered| recovered.shared_blocks);
        let last = self.judge(&found, &place);
        self.lost_late += self.too_late.drain(..).filter(|step| *step > last).count() as u64;
        let (code, said) = onewrite(&["fsck", "-n", text(&self.image)]);
        assert!(code == 0 && said.contains("clean"), "{place}: {said}");
        assert_e2fsck_is_content(&self.image, &place);
        last + 1
    }

    /// Compares what was found with what was acknowledged and what the mode promises. Returns the last step found.
    fn judge(&self, found: &Found, place: &str) -> u64 {
        let problem = match self.mode.scope() {
            Scope::Full => found.problem_of_version(&self.acked),
            _ => found.problem_of_data(&self.acked),
        };
        assert_eq!(problem, None, "{place}");
        found.last_step()
    }

    fn judge_e2fsck(&self, place: &str) {
        let copy = self.image.with_extension("copy");
        std::fs::copy(&self.image, &copy).unwrap();
        let (code, said) = e2fsck("-fy", &copy);
        assert!(code <= 1, "{place}: {said}");
        let (found, _) = read_image(&copy, Mode::Ordered).unwrap_or_else(|error| panic!("{place}: {error}"));
        self.judge(&found, &format!("{place}, replayed by e2fsck"));
        std::fs::remove_file(copy).unwrap();
    }

    /// Asserts that no page was written home, except pages that begin with jbd2's magic number.
    fn assert_it_shared(&self) {
        let Acknowledged { shared_pages, checkpoint_pages, journal_pages, escaped_pages, .. } = self.done;
        let told = format!("{}: {:?}", self.mode, self.done);
        println!("{told}, {} shared by recovery, {} lost late", self.shared_by_recovery, self.lost_late);
        // In modes that write content directly, only a few metadata blocks are left to share.
        let (least, least_by_recovery) = if self.mode.scope() == Scope::Full { (200, 50) } else { (0, 0) };
        assert!(shared_pages > least && self.shared_by_recovery > least_by_recovery, "{told}");
        assert!(checkpoint_pages <= escaped_pages && shared_pages < journal_pages, "{told}");
        assert!(self.rounds_with_shared_blocks > 0, "{told}: the image names no block of the host twice");
    }
}

/// Runs the program. Returns its exit code and its output.
fn onewrite(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_onewrite")).args(arguments).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn e2fsck(how: &str, image: &Path) -> (i32, String) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("e2fsck").env("PATH", path).args([how, text(image)]).output().expect("e2fsck");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn assert_e2fsck_is_content(image: &Path, place: &str) {
    let (code, said) = e2fsck("-fn", image);
    assert_eq!(code, 0, "{place}: {said}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn study(host: Host, mode: Mode, rounds: u64, seed: u64) {
    let Some(mut study) = Study::new(host, mode, seed) else { return };
    let mut first = steps::FIRST;
    for round in 0..rounds {
        let recoverer = [Recoverer::Mount, Recoverer::Fsck, Recoverer::E2fsck][(round % 3) as usize];
        let ends =
            if host == Host::Xfs { &[End::Killed, End::KilledAndPowerCut, End::PowerCut][..] } else { &[End::Killed] };
        let end = ends[(round / 3) as usize % ends.len()];
        first = study.round(first, end, recoverer);
    }
    study.assert_it_shared();
}

#[test]
fn what_was_acknowledged_on_xfs_survives_kills_and_power_cuts() {
    MODES.into_iter().for_each(|mode| study(Host::Xfs, mode, 12, 1));
}

#[test]
fn what_was_acknowledged_on_btrfs_survives_kills() {
    study(Host::Btrfs, Mode::Sdj, 4, 1);
}

/// A longer study: `make kill-deep`.
#[test]
#[ignore = "minutes"]
fn deep() {
    for seed in 1..=3 {
        MODES.into_iter().for_each(|mode| study(Host::Xfs, mode, 120, seed));
        MODES.into_iter().for_each(|mode| study(Host::Btrfs, mode, 20, seed));
    }
}

#[test]
fn an_image_that_cannot_share_is_refused_with_the_cure() {
    let Some(mount) = HostMount::new(Host::XfsPlain, "reflink-refused") else { return };
    let (image, job) = (mount.path("a.img"), mount.path("job.fio"));
    std::fs::write(&job, "[w]\nrw=randwrite\nsize=1m\nfsync=8\n").unwrap();
    for (mode, other) in [("soj", "ordered"), ("sdj", "data"), ("sdj+async", "data")] {
        let arguments = ["run", text(&job), "--device", text(&image), "--size", "64M", "--mode", mode];
        let (code, said) = onewrite(&arguments);
        assert_eq!(code, 2, "{said}");
        let words = [
            format!("mode `{mode}` on {}:", image.display()),
            format!("use `{other}`"),
            "cannot reflink".into(),
            "XFS".into(),
        ];
        words.into_iter().for_each(|word| assert!(said.contains(&word), "no {word}: {said}"));
        assert!(!image.exists(), "{mode}: what it made is left behind");
    }
    std::fs::write(&image, vec![7; 64 << 20]).unwrap();
    let image = ["--device", text(&image), "--force"];
    let (code, said) = onewrite(&[&["compare", text(&job), "--modes", "data,sdj"], &image[..]].concat());
    assert!(code == 2 && said.contains("mode `sdj`"), "{said}");
    let content = std::fs::read(mount.path("a.img")).unwrap();
    assert!(content.iter().all(|byte| *byte == 7), "it is refused before mkfs, also for the mode before it");
}

#[test]
fn jobs_run_in_modes_that_share_on_an_image_on_xfs() {
    let Some(mount) = HostMount::new(Host::Xfs, "reflink-run") else { return };
    let (image, job) = (mount.path("a.img"), mount.path("job.fio"));
    std::fs::write(&job, "[w]\nrw=randwrite\nsize=4m\nfsync=8\n").unwrap();
    for mode in MODES {
        let _ = std::fs::remove_file(&image);
        let arguments = ["run", text(&job), "--device", text(&image), "--size", "64M", "--mode", mode.name()];
        let (code, said) = onewrite(&arguments);
        assert_eq!(code, 0, "{said}");
        assert!(mount.has_shared_blocks(&image), "{mode}: {said}");
        assert_e2fsck_is_content(&image, mode.name());
    }
}
