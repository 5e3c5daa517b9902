//! Marked files, by attribute or by the mount's pattern: every program's changes are private until `fsync`.

use crate::support::{Mounted, refusal};

/// For the scripts below.
const HELP: &str = "
def content(name):
    with open(name, 'rb') as file:
        return file.read()
";

fn run(place: &Mounted, script: &str) {
    place.python(HELP, script);
}

/// What holds for the marked file `f`, however it was marked.
const RULES: &str = "
owner = os.open('f', os.O_RDWR | os.O_CREAT)
os.pwrite(owner, b'one', 0)
os.fsync(owner)
equal(content('f'), b'one')
other = os.open('f', os.O_RDWR)
os.pwrite(owner, b'two, longer', 0)
os.ftruncate(owner, 8)
equal(os.pread(owner, 99, 0), b'two, lon')
equal(os.pread(other, 99, 0), b'one')
equal(refusal(os.pwrite, other, b'x', 0), 'EBUSY')
os.fsync(other)
equal(os.pread(other, 99, 0), b'one')
os.fdatasync(owner)
equal(os.pread(other, 99, 0), b'two, lon')
os.pwrite(other, b'now it is free', 0)
os.close(other)
equal(content('f'), b'two, lon')
child = os.fork()
if child == 0:
    os.close(owner)
    mine = os.open('f', os.O_RDWR)
    os.pwrite(mine, b'half of a transaction', 0)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
equal(content('f'), b'two, lon')
os.close(owner)
";

#[test]
fn a_name_that_fits_makes_a_file_atomic() {
    let Some(mut place) = Mounted::unmounted_f2fs(64).and_then(|place| place.mounted("atomic=f*")) else { return };
    run(&place, RULES);
    place.unmount();
    let Some(mut place) = Mounted::new(64, "data=data,atomic=f*") else { return };
    run(&place, RULES);
    run(
        &place,
        "
with open('other', 'wb') as plain:
    plain.write(b'not atomic')
equal(content('other'), b'not atomic')
os.rename('other', 'fits')
with open('fits', 'r+b', buffering=0) as marked:
    marked.write(b'dropped at the close')
equal(content('fits'), b'not atomic')
",
    );
    run(
        &place,
        "
import shutil
with open('source', 'wb') as plain:
    plain.write(b'copied')
shutil.copyfile('source', 'fits')
equal(content('fits'), b'not atomic')
holder = os.open('fits', os.O_WRONLY | os.O_TRUNC)
equal(content('fits'), b'not atomic')
equal(refusal(os.open, 'fits', os.O_RDWR | os.O_TRUNC), 'EBUSY')
os.write(holder, b'new')
os.fsync(holder)
os.close(holder)
equal(content('fits'), b'new')
with open(b'f\\xff', 'wb') as odd:
    odd.write(b'dropped')
equal(content(b'f\\xff'), b'')
with open('source', 'wb') as plain:
    pass
equal(content('source'), b'')
",
    );
    place.unmount();
}

/// SQLite makes a database shorter behind its last sync; that must not keep others from it.
#[test]
fn a_file_cut_behind_a_commit_can_be_written_by_others() {
    let Some(mut place) = Mounted::new(64, "data=data+async,atomic=f*") else { return };
    run(
        &place,
        "
one = os.open('f', os.O_RDWR | os.O_CREAT)
os.pwrite(one, b'a' * 20000, 0)
os.ftruncate(one, 16000)
other = os.open('f', os.O_RDWR)
equal(refusal(os.pwrite, other, b'x', 0), 'EBUSY')
os.fsync(one)
os.ftruncate(one, 8000)
equal(len(content('f')), 16000)
os.pwrite(other, b'x', 0)
equal(content('f'), b'a' * 8000)
equal(refusal(os.pwrite, one, b'y', 0), 'EBUSY')
os.fsync(other)
equal(content('f'), b'x' + b'a' * 7999)
os.ftruncate(one, 4000)
os.pwrite(one, b'more', 4000)
equal(refusal(os.pwrite, other, b'z', 0), 'EBUSY')
os.fsync(one)
os.ftruncate(one, 0)
equal(refusal(os.pwrite, other, b'z', 0), 'EBUSY')
os.close(one)
equal(content('f'), b'x' + b'a' * 3999 + b'more')
os.ftruncate(other, 100)
os.close(other)
equal(len(content('f')), 4004)
",
    );
    place.unmount();
}

#[test]
fn a_synchronous_write_to_a_marked_file_commits() {
    let write = "
for (name, flag) in [('f1', FLAGS[0]), ('g', FLAGS[1])]:
    file = os.open(name, os.O_RDWR | os.O_CREAT | flag)
    os.write(file, CONTENT)
    equal(content(name), CONTENT)
    os.close(file)
    equal(content(name), CONTENT)
";
    let Some(mut place) = Mounted::new(64, "data=data+async,atomic=f*,atomic=g") else { return };
    run(&place, &format!("FLAGS, CONTENT = [os.O_DSYNC, os.O_SYNC], b'durable'{write}"));
    place.unmount();
    let Some(mut place) = place.mounted("data=data+async,atomic=f*,atomic=g,sync") else { return };
    run(&place, &format!("FLAGS, CONTENT = [os.O_TRUNC, 0], b'another'{write}"));
    place.unmount();
}

#[test]
fn an_attribute_makes_a_file_atomic_on_every_mount_and_other_modes_refuse_to_write_it() {
    let Some(place) = Mounted::new(64, "data=data+async") else { return };
    run(&place, "open('f', 'wb').close(); os.setxattr('f', 'user.onewrite.atomic', b'1')");
    run(&place, RULES);
    place.umount();
    let mut place = place.mounted("data=ordered").expect("mounted before");
    run(
        &place,
        "
equal(refusal(os.open, 'f', os.O_RDWR), 'ENOTSUP')
equal(content('f'), b'two, lon')
os.removexattr('f', 'user.onewrite.atomic')
equal(refusal(os.setxattr, 'f', 'user.onewrite.atomic', b'1'), 'ENOTSUP')
with open('f', 'r+b') as plain:
    plain.write(b'2')
equal(content('f'), b'2wo, lon')
",
    );
    place.unmount();
}

#[test]
fn a_pattern_needs_a_mode_that_logs_content() {
    let Some(place) = Mounted::unmounted(16) else { return };
    let told = refusal(&place.mount("image", "data=ordered,atomic=*.db"), 2);
    assert!(told.contains("mount with data, data+async"), "{told}");
}

/// `journal_mode=OFF`: SQLite writes the database in place and cannot roll back by itself. A transaction larger than
/// SQLite's cache reaches the file before its commit; then the program dies.
#[test]
fn sqlite_without_a_journal_is_safe_on_a_marked_database() {
    let Some(mut place) = Mounted::new(64, "data=data+async,atomic=*.db") else { return };
    run(
        &place,
        "
import sqlite3
def opened():
    database = sqlite3.connect('accounts.db', isolation_level=None)
    equal(database.execute('PRAGMA journal_mode=OFF').fetchone(), ('off',))
    database.execute('PRAGMA cache_size=4')
    return database

database = opened()
database.execute('CREATE TABLE entries (number INTEGER, filler BLOB)')
for number in range(20):
    database.execute('INSERT INTO entries VALUES (?, zeroblob(20000))', (number,))
database.close()
child = os.fork()
if child == 0:
    database = opened()
    database.execute('BEGIN')
    database.execute('UPDATE entries SET number = number + 1000, filler = randomblob(20000)')
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
database = opened()
equal(database.execute('SELECT count(*), sum(number) FROM entries').fetchone(), (20, 190))
equal(database.execute('PRAGMA integrity_check').fetchone(), ('ok',))
equal(os.listdir('.').count('accounts.db-journal'), 0)
",
    );
    place.unmount();
}
