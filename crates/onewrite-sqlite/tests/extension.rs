//! The loadable extension, loaded: by the SQLite of this test and by the shell of this machine.

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use rusqlite::{Connection, OpenFlags};
use support::Image;

/// The extension, without its ending.
fn extension() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libonewrite_sqlite")
}

fn uri(image: &Image, path: &str, parameters: &str) -> String {
    format!("file:{}:{path}?vfs=onewrite{parameters}", image.0.display())
}

fn open(uri: &str) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(uri, OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI)
}

/// Loads the extension into the SQLite of this test.
fn load() {
    let loader = Connection::open_in_memory().unwrap();
    #[expect(unsafe_code, reason = "what is loaded is that of this workspace")]
    // SAFETY: its only duty is to keep SQLite's contract.
    let loaded = unsafe {
        loader.load_extension_enable().unwrap();
        loader.load_extension(extension(), None::<&str>)
    };
    loaded.unwrap();
}

#[test]
fn any_program_opens_databases_in_images() {
    load();
    load();
    let (first, second) = (Image::new(), Image::new());
    let database = open(&uri(&first, "/a/../one.db", "&data=data&page-cache=8M")).unwrap();
    database.execute_batch("PRAGMA journal_mode = MEMORY; CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    for other in [uri(&first, "/two.db", ""), uri(&second, "/three.db", "&data=ordered")] {
        database.execute_batch(&format!("ATTACH '{other}' AS other; CREATE TABLE other.u AS SELECT x FROM t")).unwrap();
        let sum: i64 = database.query_row("SELECT sum(x) FROM u", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 1);
        database.execute_batch("DETACH other").unwrap();
    }
    // The second image is unmounted now, the first one is in use.
    second.check();
    assert!(open(&uri(&first, "/one.db", "&data=ordered")).is_err());
    drop(database);
    first.check();
    let again = open(&uri(&first, "/one.db", "&data=data+async")).unwrap();
    let count: i64 = again.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn wrong_names_and_options_are_refused() {
    load();
    let image = Image::new();
    let elsewhere = "file:/no/such.img:/db?vfs=onewrite".to_owned();
    let inside = format!("file:{}?vfs=onewrite", image.0.display());
    let options = ["&data=journal", "&page-cache=8K", "&page-cache=many"].map(|wrong| uri(&image, "/db", wrong));
    for wrong in [elsewhere, inside, uri(&image, "/none/db", "")].into_iter().chain(options) {
        assert!(open(&wrong).and_then(|database| database.execute_batch("CREATE TABLE t (x)")).is_err(), "{wrong}");
    }
    image.check();
}

/// What the shell prints for `script`, `None` where there is no shell that loads extensions.
fn shell(script: &str) -> Option<String> {
    let mut shell = match Command::new("sqlite3").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
        Ok(shell) => shell,
        Err(error) => {
            onewrite_testing::skipped!("the shell of SQLite: {error}; install sqlite3");
            return None;
        }
    };
    let lines: String = script.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    let script = format!(".bail on\n.load {}\n{lines}", extension().display());
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), script.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success(), "the shell: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_shell_commits_over_two_databases_without_a_journal() {
    let image = Image::new();
    let script = format!(
        ".open '{}'
         .vfsname
         PRAGMA journal_mode = MEMORY;
         CREATE TABLE one (x);
         ATTACH '{}' AS other;
         PRAGMA other.journal_mode = MEMORY;
         CREATE TABLE other.two (x);
         BEGIN; INSERT INTO one VALUES (1); INSERT INTO two VALUES (2); COMMIT;
         BEGIN; DELETE FROM one; DELETE FROM two; ROLLBACK;
         SELECT one.x, two.x FROM one, two;
         PRAGMA integrity_check;",
        uri(&image, "/one.db", ""),
        uri(&image, "/two.db", "")
    );
    let Some(told) = shell(&script) else { return };
    assert_eq!(told.lines().collect::<Vec<_>>(), ["onewrite", "memory", "memory", "1|2", "ok"]);
    image.check();
}
