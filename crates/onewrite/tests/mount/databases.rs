//! Databases: MariaDB under sysbench, with and without its double-write buffer, and PostgreSQL under pgbench. Their own
//! checkers judge, also after the process of the mount was killed while they committed.
//!
//! They are skipped where the servers are not installed. `ONEWRITE_LOAD_SECONDS` sets the time of each load (default
//! 2), `ONEWRITE_KILLS` the number of kills (default 1); `make databases` takes more of both.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use onewrite_block::Choices;
use onewrite_testing::skipped;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Mounted, pause, text};

const MARIADB: &str = include_str!("databases/mariadb.sh");
const POSTGRESQL: &str = include_str!("databases/postgresql.sh");

/// What the scripts call.
const NEEDS: [(&str, &str); 2] = [
    (MARIADB, "command -v mariadbd mariadb-install-db sysbench"),
    (POSTGRESQL, "ls /usr/lib/postgresql/*/bin/initdb && id postgres && command -v setpriv"),
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn script(place: &Mounted, (script, doublewrite): (&str, u8), arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "database"])
        .args(arguments)
        .env("DOUBLEWRITE", doublewrite.to_string())
        .env("LOAD_SECONDS", setting("ONEWRITE_LOAD_SECONDS", 2).to_string())
        .current_dir(place.beside(""));
    command
}

fn is_installed(script: &str) -> bool {
    let (_, needed) = NEEDS.iter().find(|(other, _)| *other == script).expect("a script of ours");
    let found = Command::new("sh").args(["-c", needed]).output().is_ok_and(|output| output.status.success());
    if !found {
        skipped!("not all of it is installed: {needed}");
    }
    found
}

/// A database on a new image; `None`, with a message, if that is impossible here.
fn database(mode: &str, server: (&str, u8)) -> Option<Mounted> {
    if !is_installed(server.0) {
        return None;
    }
    let place = Mounted::new(512, &options(mode))?;
    text(&script(&place, server, &["make"]).output().unwrap());
    Some(place)
}

fn options(mode: &str) -> String {
    format!("data={mode},cache=32M,allow_other")
}

/// The greatest number that the database holds; all below are there, too.
fn greatest(output: &Output) -> u64 {
    let said = text(output);
    let (is_whole, greatest) = said.trim().split_once('\t').unwrap();
    assert_eq!(is_whole, "1", "a number below {greatest} is missing");
    greatest.parse().unwrap()
}

fn stays_whole_under_load(mode: &str, server: (&str, u8)) {
    let Some(mut place) = database(mode, server) else { return };
    let said = text(&script(&place, server, &["load"]).output().unwrap());
    println!("{mode}, double-write {}: {said}", server.1);
    place.unmount();
    place = place.mounted(&options(mode)).unwrap();
    assert_eq!(greatest(&script(&place, server, &["check"]).output().unwrap()), 0);
    place.unmount();
}

/// Commits numbers; kills the process of the mount; returns the last number that was committed.
fn commit_and_be_killed(place: &Mounted, server: (&str, u8), (last, after_milliseconds): (u64, u64)) -> u64 {
    let next = (last + 1).to_string();
    let mut load =
        script(place, server, &["commit", &next]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(load.stdout.take().unwrap()).lines();
    let first = lines.next().expect("a first commit").unwrap();
    pause(after_milliseconds);
    kill_process(Pid::from_raw(place.process() as i32).unwrap(), Signal::KILL).unwrap();
    let committed = std::iter::once(first).chain(lines.map_while(Result::ok)).last().unwrap();
    load.wait().unwrap();
    place.wait_for_end();
    text(&Command::new("umount").arg("-l").arg(place.at("")).output().unwrap());
    committed.trim().parse().unwrap()
}

fn keeps_commits_when_killed(mode: &str, server: (&str, u8)) {
    let Some(mut place) = database(mode, server) else { return };
    let (mut moments, mut last) = (Choices::new(11).stream(mode, 0), 0);
    for round in 0..setting("ONEWRITE_KILLS", 1) {
        let committed = commit_and_be_killed(&place, server, (last, moments.below(500)));
        assert!(committed > last, "{mode}, round {round}: {committed} after {last}");
        text(&place.fsck_after_kill());
        place.check();
        place = place.mounted(&options(mode)).unwrap();
        last = greatest(&script(&place, server, &["check"]).output().unwrap());
        assert!(last >= committed, "{mode}, round {round}: {last}, but {committed} was committed");
    }
    place.unmount();
}

#[test]
fn mariadb_stays_whole_without_its_double_write_buffer() {
    stays_whole_under_load("data", (MARIADB, 0));
}

#[test]
fn mariadb_stays_whole_with_its_double_write_buffer() {
    stays_whole_under_load("ordered", (MARIADB, 1));
}

#[test]
fn mariadb_keeps_its_commits_when_the_mount_is_killed() {
    keeps_commits_when_killed("data+async", (MARIADB, 0));
    keeps_commits_when_killed("ordered", (MARIADB, 1));
}

#[test]
fn postgresql_stays_whole_under_pgbench() {
    stays_whole_under_load("data+async", (POSTGRESQL, 0));
}

#[test]
fn postgresql_keeps_its_commits_when_the_mount_is_killed() {
    keeps_commits_when_killed("ordered", (POSTGRESQL, 0));
}
