//! The file disk against a real file.

use onewrite_block::{Cause, Device, Executor, Lpn, PAGE_SIZE, Page, Request};
use onewrite_device::FileDisk;

fn scratch(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("onewrite-device-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn what_was_written_is_in_the_file_and_a_trim_makes_it_zeros() {
    let path = scratch("round");
    let disk = FileDisk::create(&path, 16 * PAGE_SIZE as u64).unwrap();
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let pages = executor.block_on(async move {
        port.request(Request::write(Lpn(2), vec![Page::from_slice(b"two"), Page::from_slice(b"three")], Cause::Data))
            .await?;
        port.request(Request::flush(Cause::Data)).await?;
        port.request(Request::trim(Lpn(2), 1, Cause::Data)).await?;
        port.request(Request::read(Lpn(1), 3, Cause::Data)).await
    });
    assert_eq!(pages.unwrap().unwrap(), [Page::ZEROS, Page::ZEROS, Page::from_slice(b"three")]);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes.len(), &bytes[3 * PAGE_SIZE..3 * PAGE_SIZE + 5]), (16 * PAGE_SIZE, &b"three"[..]));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_existing_file_keeps_its_content_and_size() {
    let path = scratch("keep");
    std::fs::write(&path, vec![7; 5 * PAGE_SIZE]).unwrap();
    let disk = FileDisk::create(&path, PAGE_SIZE as u64).unwrap();
    assert_eq!(disk.geometry().pages, 5);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_missing_file_is_named_with_the_cure() {
    let error = FileDisk::open("/nonexistent/disk.img").unwrap_err().to_string();
    assert!(error.contains("/nonexistent/disk.img: open failed") && error.contains("image"), "{error}");
}

#[test]
fn an_empty_file_is_refused() {
    let path = scratch("empty");
    std::fs::write(&path, b"").unwrap();
    assert!(FileDisk::open(&path).unwrap_err().to_string().contains("it is no image"));
    let none = path.with_extension("none");
    assert!(FileDisk::create(&none, 100).is_err() && !none.exists(), "what is refused is not left behind");
    assert!(FileDisk::create(&path, 100).is_err() && path.exists(), "what was there stays");
    std::fs::remove_file(&path).unwrap();
}

/// As after a kill of a process whose last requests the kernel still carries out. `flock` ends once it has the lock,
/// and the shell keeps the open file.
#[test]
fn a_lock_that_an_ended_process_left_behind_is_waited_for() {
    let path = scratch("left-behind");
    std::fs::write(&path, vec![7; 5 * PAGE_SIZE]).unwrap();
    let script = "exec 9<\"$0\"; flock -n 9 && echo locked && exec 1>&- && sleep 0.3";
    let mut shell = std::process::Command::new("sh")
        .args(["-c", script, path.to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(shell.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(said, "locked\n");
    assert_eq!(FileDisk::open(&path).unwrap().geometry().pages, 5);
    assert!(shell.wait().unwrap().success());
    std::fs::remove_file(&path).unwrap();
}
