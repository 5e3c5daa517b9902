//! The kernel's ext4 on a loop device over a recorded file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Image, Operation};
use onewrite_host::fuse::RecordedFile;
use onewrite_testing::skipped;

use crate::support::{output, run, text};

/// A recording disk, mounted as ext4 by the kernel.
pub struct Recorder {
    file: Option<RecordedFile>,
    device: Option<String>,
    root: PathBuf,
}

impl Recorder {
    /// Mounts a disk that holds `image`; `None`, with a message, if that is impossible here.
    pub fn new(directory: &Path, image: Image, options: &str) -> Option<Recorder> {
        let (served, root) = (directory.join("served"), directory.join("root"));
        std::fs::create_dir_all(&served).expect("directory");
        std::fs::create_dir_all(&root).expect("directory");
        let file = match RecordedFile::new(&served, image) {
            Ok(file) => file,
            Err(error) => {
                skipped!("no FUSE (not root?): {error}");
                return None;
            }
        };
        let path = file.path().to_owned();
        let mut recorder = Recorder { file: Some(file), device: None, root };
        recorder.attach(&path, options).then_some(recorder)
    }

    fn attach(&mut self, file: &Path, options: &str) -> bool {
        let attached = output("losetup", &["--direct-io=on", "-f", "--show", text(file)]);
        if !attached.status.success() {
            skipped!("no loop device (not root?): {}", String::from_utf8_lossy(&attached.stderr));
            return false;
        }
        let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        self.device = Some(device.clone());
        let name = device.trim_start_matches("/dev/").to_owned();
        let direct = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio")).expect("an attached loop device");
        assert_eq!(direct.trim(), "1", "the loop device writes through the page cache: it keeps no order");
        run("mount", &["-t", "ext4", "-o", options, &device, text(&self.root)]);
        true
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Marks this moment in the recording.
    pub fn mark(&self) {
        self.file.as_ref().expect("it is mounted").marker()(0);
    }

    /// Unmounts; returns the requests before the mark and those after it.
    pub fn finish(mut self) -> (Vec<Operation>, Vec<Operation>) {
        self.detach();
        let events = self.file.take().expect("it was mounted").finish().expect("unmounted");
        let marked = events.iter().position(|event| matches!(event, RecordedEvent::Mark(_))).expect("a mark");
        let requests = |events: &[RecordedEvent]| events.iter().filter_map(request).collect();
        (requests(&events[..marked]), requests(&events[marked..]))
    }

    fn detach(&mut self) {
        if let Some(device) = self.device.take() {
            let unmounted = (0..50).any(|_| output("umount", &[text(&self.root)]).status.success());
            output("losetup", &["-d", &device]);
            if !unmounted {
                eprintln!("{} stays mounted", self.root.display());
            }
            wait_until_free(&device);
        }
    }
}

/// Waits, 10 s at most, until nobody holds the detached device, which would keep its file busy.
#[expect(clippy::disallowed_methods, reason = "the kernel frees the device in its own time")]
fn wait_until_free(device: &str) {
    let backing = format!("/sys/block/{}/loop/backing_file", device.trim_start_matches("/dev/"));
    for _ in 0..1_000 {
        if !Path::new(&backing).exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn request(event: &RecordedEvent) -> Option<Operation> {
    match event {
        RecordedEvent::Submitted(_, request) => Some(request.operation.clone()),
        _ => None,
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.detach();
    }
}
