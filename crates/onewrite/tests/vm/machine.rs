//! Machine: a PC without a disk of its own, emulated by QEMU without help of a processor, on which a Linux kernel runs
//! a shell script with images as disks.
//!
//! ```text
//!   initial RAM disk: system ++ init with the script ─► QEMU ─► what the script and its programs tell, over a port of
//!   virtio-serial ─► lines                             console ─► shown if the script fails
//! ```
//!
//! In the script `vda`, `vdb`, … are the disks, `guest WORDS` runs a command of `guest.rs`, and `tell WORDS` tells a
//! line. `set -e` is on: the first command that fails ends the script, and the case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use onewrite_testing::skipped;

use crate::archive::Archive;

/// Names the directory with `boot/vmlinuz-*` and `lib/modules`; `make vm` sets it.
const VARIABLE: &str = "ONEWRITE_VM_KERNEL";
/// Seconds after which a machine is stopped: it hangs.
const SECONDS_MAX: &str = "900";
/// The line after which the script has ended well.
const WELL: &str = "ended well";

const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
depmod -a 2> /dev/null
for module in virtio_pci virtio_blk virtio_console crc32_generic crc32c_generic f2fs ext4; do modprobe $module; done
export ONEWRITE_TOLD=/tmp/told
exec 3> $(ls /dev/vport*p1)
tell() { echo "$*" >&3; }
guest() {
    : > /tmp/told
    ONEWRITE_GUEST="$*" /vm --ignored --exact --nocapture guest::inside > /tmp/said 2>&1 || { cat /tmp/said; false; }
    cat /tmp/told >&3
}
tell kernel $(uname -r)
( set -e
"#;

const END: &str = r#"
)
[ $? = 0 ] && tell ended well || dmesg | grep -E "F2FS|EXT4|BUG|WARN|I/O" | tail -20
exec 3>&-
echo b > /proc/sysrq-trigger
"#;

/// The kernel that the environment names.
pub struct Kernel {
    image: PathBuf,
    system: Vec<u8>,
}

impl Kernel {
    /// The kernel; `None`, with a message, if there is none.
    pub fn get() -> Option<&'static Kernel> {
        static KERNEL: OnceLock<Option<Kernel>> = OnceLock::new();
        let kernel = KERNEL.get_or_init(|| std::env::var_os(VARIABLE).map(|path| Kernel::at(Path::new(&path))));
        if kernel.is_none() {
            skipped!("{VARIABLE} names no kernel for a virtual machine: run `make vm`");
        }
        kernel.as_ref()
    }

    fn at(directory: &Path) -> Kernel {
        let boot = fs::read_dir(directory.join("boot")).unwrap_or_else(|error| panic!("{VARIABLE}: {error}"));
        let mut files = boot.map(|entry| entry.unwrap().path());
        let image = files.find(|path| path.to_str().is_some_and(|path| path.contains("vmlinuz")));
        let image = image.unwrap_or_else(|| panic!("{VARIABLE}: no boot/vmlinuz-* in {}", directory.display()));
        Kernel { image, system: Archive::of_system(directory).finish() }
    }

    /// Boots with these files as disks, runs `script` and stops without an unmount. Returns the lines that were told.
    ///
    /// # Panics
    /// If the script fails; with what the console showed.
    pub fn run(&self, room: &Path, disks: &[PathBuf], script: &str) -> Vec<String> {
        let (ramdisk, told) = (room.join("ramdisk"), room.join("told"));
        let mut init = Archive::default();
        init.put_script("init", &format!("{INIT}{script}{END}"));
        fs::write(&ramdisk, [&self.system[..], &init.finish()].concat()).unwrap();
        let mut machine = self.command(&ramdisk, &told);
        for disk in disks {
            let options = "format=raw,if=virtio,cache=none,aio=threads,discard=unmap";
            machine.arg("-drive").arg(format!("file={},{options}", disk.display()));
        }
        let output = machine.stdin(Stdio::null()).output().expect("timeout and qemu-system-x86_64");
        let lines: Vec<String> =
            String::from_utf8_lossy(&fs::read(&told).unwrap_or_default()).lines().map(str::to_owned).collect();
        let console = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let has_ended_well = lines.last().is_some_and(|line| line == WELL);
        assert!(has_ended_well, "the script failed in the machine: {script}\n{console}\ntold: {:?}", lines.last());
        let inner = &lines[..lines.len() - 1];
        inner.iter().filter(|line| !line.starts_with("kernel ")).cloned().collect()
    }

    fn command(&self, ramdisk: &Path, told: &Path) -> Command {
        let mut machine = Command::new("timeout");
        machine.args([SECONDS_MAX, "qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]);
        machine.args(["-smp", "2", "-m", "768", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]);
        machine.arg("-kernel").arg(&self.image).arg("-initrd").arg(ramdisk);
        machine.args(["-append", "console=ttyS0 quiet panic=-1"]);
        machine.args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=told,name=told"]);
        machine.arg("-chardev").arg(format!("file,id=told,path={}", told.display()));
        machine
    }
}
