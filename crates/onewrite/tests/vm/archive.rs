//! Archive: the initial RAM disk of a machine, in cpio's `newc` form (Linux: Documentation/driver-api/early-userspace).
//!
//! It holds busybox, the modules of the kernel that the cases need, this test program with its libraries (it works
//! inside, too: `guest.rs`) and an `init`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules and directories of modules that are put in.
const MODULES: [&str; 10] = [
    "arch/x86/crypto",
    "crypto",
    "drivers/block/virtio_blk.ko",
    "drivers/char/virtio_console.ko",
    "drivers/virtio",
    "fs/ext4",
    "fs/f2fs",
    "fs/jbd2",
    "fs/mbcache.ko",
    "lib",
];

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// A growing archive.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    count: u32,
}

impl Archive {
    /// Busybox, the modules of `kernel` (a directory with `boot` and `lib/modules`) and this program.
    pub fn of_system(kernel: &Path) -> Archive {
        let mut archive = Archive::default();
        for directory in ["bin", "dev", "m", "proc", "sys", "tmp"] {
            archive.put(Path::new(directory), DIRECTORY, b"");
        }
        archive.put_file(Path::new("bin/busybox"), Path::new("/bin/busybox"));
        let versions = kernel.join("lib/modules");
        let version = fs::read_dir(&versions).unwrap().next().expect("a version of the kernel").unwrap().file_name();
        let inside = Path::new("lib/modules").join(version);
        for name in MODULES {
            archive.put_all(&inside.join("kernel").join(name), &kernel.join(&inside).join("kernel").join(name));
        }
        archive.put_this_program();
        archive
    }

    /// Puts this program in as `/vm`, without what only debuggers read.
    fn put_this_program(&mut self) {
        let program = std::env::current_exe().unwrap();
        let small = std::env::temp_dir().join(format!("onewrite-vm-{}", std::process::id()));
        let strip = Command::new("strip").arg("-o").args([&small, &program]).status();
        let is_small = strip.is_ok_and(|status| status.success());
        self.put_file(Path::new("vm"), if is_small { &small } else { &program });
        let _ = fs::remove_file(&small);
        let said = Command::new("ldd").arg(&program).output().expect("ldd").stdout;
        let said = String::from_utf8(said).unwrap();
        let words = said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
        for library in words {
            self.put_file(Path::new(library.trim_start_matches('/')), Path::new(library));
        }
    }

    fn put_all(&mut self, inside: &Path, outside: &Path) {
        if !outside.is_dir() {
            return self.put_file(inside, outside);
        }
        for entry in fs::read_dir(outside).unwrap() {
            let name = entry.unwrap().file_name();
            self.put_all(&inside.join(&name), &outside.join(&name));
        }
    }

    fn put_file(&mut self, inside: &Path, outside: &Path) {
        let content = fs::read(outside).unwrap_or_else(|error| panic!("{}: {error}", outside.display()));
        let parents: Vec<PathBuf> = inside.ancestors().skip(1).map(Path::to_owned).collect();
        for parent in parents.iter().rev().filter(|parent| parent.components().next().is_some()) {
            self.put(parent, DIRECTORY, b"");
        }
        self.put(inside, PROGRAM, &content);
    }

    /// Puts a program with this text in.
    pub fn put_script(&mut self, inside: &str, text: &str) {
        self.put(Path::new(inside), PROGRAM, text.as_bytes());
    }

    /// Puts an entry in; one that is there already does no harm.
    fn put(&mut self, inside: &Path, mode: u32, content: &[u8]) {
        self.count += 1;
        let name = inside.as_os_str().as_bytes();
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let (length, name_length) = (content.len() as u32, name.len() as u32 + 1);
        let fields = [self.count, mode, 0, 0, links, 0, length, 0, 0, 0, 0, name_length, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|field| self.bytes.extend(format!("{field:08x}").bytes()));
        self.bytes.extend(name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.put(Path::new("TRAILER!!!"), 0, b"");
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self.bytes
    }
}
