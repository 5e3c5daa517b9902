//! C programs against the library: what they see, what an image is after them, and what is left of one that died.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a program needs beside the static library; as in `onewrite.pc.in`.
const PRIVATE: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// A directory that is removed in the end.
struct Room(PathBuf);

impl Room {
    fn new(name: &str) -> Room {
        let path = std::env::temp_dir().join(format!("onewrite-c-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Room(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where cargo put the libraries: beside this test.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn run(program: &Path, arguments: &[&OsStr]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn passes(output: &Output) {
    let text = [&*output.stdout, &*output.stderr].concat();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&text));
}

/// Compiles a program; `libraries` follow it.
fn compile(source: &Path, program: &Path, libraries: &[&OsStr]) {
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(self::source("include"));
    cc.arg(source).arg("-o").arg(program).args(libraries);
    passes(&cc.output().unwrap());
}

fn compile_statically(source: &Path, program: &Path) {
    let library = libraries().join("libonewrite.a");
    let libraries: Vec<&OsStr> = [library.as_os_str()].into_iter().chain(PRIVATE.map(OsStr::new)).collect();
    compile(source, program, &libraries);
}

/// e2fsck finds nothing.
fn check(image: &Path) {
    passes(&Command::new("e2fsck").arg("-fn").arg(image).output().unwrap());
}

#[test]
fn a_c_program_uses_every_call_and_leaves_a_clean_image() {
    let room = Room::new("files");
    let (program, image) = (room.path("files"), room.path("disk.img"));
    compile_statically(&source("tests/c/files.c"), &program);
    let part = |name: &str| run(&program, &[OsStr::new(name), image.as_os_str()]);
    passes(&part("all"));
    check(&image);

    let mut holder = Command::new(&program)
        .args([OsStr::new("hold"), image.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let refused = part("busy");
    drop(holder.stdin.take());
    let held = holder.wait().unwrap();
    assert_eq!(line, "open\n");
    passes(&refused);
    assert!(held.success(), "{held}");

    let died = part("die").status;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&died), Some(9), "{died}");
    passes(&part("after"));
    check(&image);
}

#[test]
fn the_example_runs_with_either_library_and_is_the_one_of_the_document() {
    let example = source("../../examples/c/log.c");
    let text = std::fs::read_to_string(&example).unwrap();
    let document = std::fs::read_to_string(source("../../docs/c.md")).unwrap();
    assert!(document.contains(&format!("```c\n{text}```")), "docs/c.md shows another example");

    let room = Room::new("example");
    let (program, image) = (room.path("log"), room.path("disk.img"));
    compile_statically(&example, &program);
    let usage = run(&program, &[]);
    assert_eq!(usage.status.code(), Some(2));
    onewrite_host::make_image(&image, 32 << 20).unwrap();
    let log = |line: &str| run(&program, &[image.as_os_str(), OsStr::new(line)]);
    passes(&log("first"));

    // The loader finds the shared library by the name that was built into it.
    std::os::unix::fs::symlink(libraries().join("libonewrite.so"), room.path("libonewrite.so.0")).unwrap();
    let (search, place) = (format!("-L{}", libraries().display()), format!("-Wl,-rpath,{}", room.0.display()));
    std::fs::remove_file(&program).unwrap();
    compile(&example, &program, &[&search, &place, "-l:libonewrite.so"].map(OsStr::new));
    let second = log("second");
    passes(&second);
    assert_eq!(String::from_utf8_lossy(&second.stdout), "acknowledged\nfirst\nsecond\n");
    check(&image);
}
