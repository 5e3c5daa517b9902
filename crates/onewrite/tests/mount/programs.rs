//! Programs: real, unmodified programs in every mode.

use std::fs;

use onewrite_testing::skipped;

use crate::support::{Mounted, modes, pause, text};

#[test]
fn fio_finds_again_what_it_wrote_in_every_mode() {
    for mode in modes() {
        let Some(mut place) = Mounted::new(128, &format!("data={mode},cache=8M")) else { return };
        for (engine, sizes) in [("psync", "512-64k"), ("mmap", "4k-64k")] {
            let job = format!(
                "--name={engine} --ioengine={engine} --rw=randwrite --bsrange={sizes} --size=8m --numjobs=2 \
                 --verify=crc32c --fsync=32 --randseed=7 --output-format=terse"
            );
            let job: Vec<&str> = job.split_whitespace().collect();
            let Some(done) = place.run("fio", &job) else { return };
            text(&done);
        }
        place.unmount();
    }
}

#[test]
fn git_clones_collects_and_checks() {
    let Some(mut place) = Mounted::new(256, "") else { return };
    if place.run("git", &["--version"]).is_none() {
        return;
    }
    let script = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
git config --global user.name a; git config --global user.email a@b; git config --global safe.directory '*'
git init -q origin; cd origin
for commit in 1 2 3 4 5; do
  mkdir -p d$commit
  for file in $(seq 40); do echo \"$commit $file $(seq 200)\" > d$commit/f$file; done
  git add .; git commit -q -m c$commit
done
cd ..; git clone -q --no-hardlinks origin clone; cd clone
git gc -q --aggressive; git fsck --strict; git status --porcelain; git log --oneline | wc -l; diff -r d5 ../origin/d5";
    assert_eq!(place.shell(script).trim(), "5");
    place.unmount();
    place = place.mounted("data=data+async").unwrap();
    place.shell("export HOME=$PWD; cd clone; git fsck --strict; test -z \"$(git status --porcelain)\"");
    place.unmount();
}

#[test]
fn cargo_builds_runs_and_finds_fresh_what_it_built() {
    let Some(mut place) = Mounted::new(256, "") else { return };
    if place.run("cargo", &["--version"]).is_none() {
        return;
    }
    let script = "export CARGO_TARGET_DIR=$PWD/target
mkdir -p app/src part/src
printf '[workspace]\nmembers = [\"app\", \"part\"]\nresolver = \"2\"\n' > Cargo.toml
printf '[package]\nname = \"part\"\nversion = \"0.1.0\"\n' > part/Cargo.toml
printf '[package]\nname = \"app\"\nversion = \"0.1.0\"\n[dependencies]\n' > app/Cargo.toml
echo 'part = { path = \"../part\" }' >> app/Cargo.toml
echo 'pub fn seven() -> u32 { 7 } #[test] fn it_is() { assert_eq!(seven(), 7) }' > part/src/lib.rs
echo 'fn main() { println!(\"{}\", part::seven() * 6) }' > app/src/main.rs
cargo test --quiet --offline > tests.txt 2>&1 || { cat tests.txt; exit 1; }
cargo build --quiet --offline; target/debug/app; cargo build --offline -v 2>&1 | grep -c Fresh
sleep 1; echo 'pub fn seven() -> u32 { 8 }' > part/src/lib.rs; cargo run --quiet --offline";
    assert_eq!(place.shell(script).split_whitespace().collect::<Vec<_>>(), ["42", "2", "48"]);
    place.unmount();
    place = place.mounted("data=data+async").unwrap();
    let again = "export CARGO_TARGET_DIR=$PWD/target; cargo build --offline -v 2>&1 | grep -c Fresh; target/debug/app";
    assert_eq!(place.shell(again).split_whitespace().collect::<Vec<_>>(), ["2", "48"]);
    place.unmount();
}

#[test]
fn sqlite_keeps_its_database_whole_in_every_journal_mode() {
    let Some(mut place) = Mounted::new(128, "data=data+async") else { return };
    for journal in ["delete", "truncate", "persist", "wal", "memory"] {
        let script = format!(
            "pragma journal_mode={journal}; create table t(a primary key, b);
             with recursive c(x) as (select 1 union all select x+1 from c where x<2000)
             insert into t select x, randomblob(200) from c;
             begin; update t set b=randomblob(300) where a%3=0; rollback;
             update t set b=randomblob(100) where a%7=0; delete from t where a%5=0; vacuum;
             select count(*) from t; pragma integrity_check;"
        );
        let Some(done) = place.run("sqlite3", &[&format!("{journal}.db"), &script]) else { return };
        assert!(text(&done).trim().ends_with("1600\nok"), "{journal}");
    }
    place.unmount();
}

#[test]
fn trees_are_copied_packed_and_unpacked_without_a_difference() {
    let Some(mut place) = Mounted::new(256, "data=ldj") else { return };
    let source = "/usr/share/perl5";
    if !std::path::Path::new(source).exists() {
        skipped!("no {source}");
        return;
    }
    place.shell(&format!("cp -a {source} tree; diff -r --no-dereference {source} tree"));
    place.shell("tar cf tree.tar tree; mkdir again; tar xf tree.tar -C again; diff -r tree again/tree");
    // tar sets the times that the tree had before the archive was made.
    assert_eq!(place.shell("find again -type f -newer tree.tar; find tree -type f -newer tree.tar"), "");
    place.shell("touch again/new; test $(find again -type f -newer tree.tar | wc -l) = 1; rm -r again");
    place.unmount();
    place = place.mounted("ro").unwrap();
    place.shell(&format!("diff -r --no-dereference {source} tree"));
    place.umount();
    place.wait_for_end();
}

#[test]
fn many_processes_at_once_keep_their_files_apart() {
    let Some(mut place) = Mounted::new(256, "data=data+async") else { return };
    let script = "work() {
  for turn in $(seq 30); do
    seq $1 200 20000 > p$1.$turn.tmp; sync p$1.$turn.tmp; mv p$1.$turn.tmp p$1
    test \"$(seq $1 200 20000 | cksum)\" = \"$(cksum < p$1)\" || exit 1
  done; }
for process in $(seq 8); do work $process & all=\"$all $!\"; done
for one in $all; do wait $one; done";
    place.shell(script);
    let names: Vec<_> = fs::read_dir(place.at("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    // The kernel closes files and directories in the background.
    let is_idle = (0..500).any(|_| {
        place.stats()["in_flight"] == 0 || {
            pause(20);
            false
        }
    });
    assert!(is_idle, "requests are under way ten seconds after the last program: {}", place.stats());
    place.unmount();
}
