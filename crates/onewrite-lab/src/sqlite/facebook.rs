//! A load like that of an application with a feed: posts arrive, some with a preview picture; the newest are read,
//! counters of posts and settings change, old posts go.
//!
//! Ours: the traces of `papers/000` §3.6.3 are not public. Of 20 operations 7 read the newest posts, 8 insert a post
//! (one in four with 1 to 8 KiB of picture), 3 update the counters of a post, 1 a setting, 1 deletes the oldest post.
//! Most transactions change one row.

use onewrite_block::Choices;
use rusqlite::{Connection, Result};

use super::application::{Application, Session, picture, text};

const OPERATIONS: u32 = 1_000;
/// Posts that are there before.
const POSTS: u64 = 400;
const SETTINGS: u64 = 40;

pub(super) struct Facebook {
    operations: u32,
    /// Numbers of the oldest post and of the next one.
    oldest: u64,
    next: u64,
}

impl Facebook {
    pub(super) fn new(operations: Option<u32>) -> Facebook {
        Facebook { operations: operations.unwrap_or(OPERATIONS), oldest: 1, next: 1 }
    }

    fn insert(&mut self, database: &Connection, chance: &mut Choices) -> Result<()> {
        let picture = chance.chance(1, 4).then(|| picture(chance, 1 << 10, 8 << 10));
        let sql = "INSERT INTO post VALUES (?1, ?2, ?3, 0, ?4, ?5)";
        let (author, body) = (chance.below(200), text(chance, 80, 600));
        database.execute(sql, (self.next as i64, author as i64, 1_000 * self.next as i64, body, picture))?;
        self.next += 1;
        Ok(())
    }

    fn any_post(&self, chance: &mut Choices) -> i64 {
        (self.oldest + chance.below(self.next - self.oldest)) as i64
    }
}

/// Reads the newest posts.
fn read_newest(database: &Connection) -> Result<()> {
    let mut statement = database.prepare("SELECT body, picture FROM post ORDER BY posted DESC LIMIT 10")?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

impl Application for Facebook {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<()> {
        session.database.execute_batch(
            "CREATE TABLE post (number INTEGER PRIMARY KEY, author INTEGER, posted INTEGER, likes INTEGER, body TEXT,
                                picture BLOB);
             CREATE INDEX post_by_time ON post (posted); CREATE INDEX post_by_author ON post (author);
             CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT)",
        )?;
        let all = session.database.unchecked_transaction()?;
        for _ in 0..POSTS {
            self.insert(&all, &mut session.chance)?;
        }
        for key in 0..SETTINGS {
            all.execute("INSERT INTO setting VALUES (?1, '')", [format!("key {key}")])?;
        }
        all.commit()
    }

    fn work(&mut self, session: &mut Session<'_>) -> Result<()> {
        for _ in 0..self.operations {
            match session.chance.below(20) {
                0..7 => session.operation("select", |database, _| read_newest(database))?,
                7..15 => session.operation("insert", |database, chance| self.insert(database, chance))?,
                15..18 => session.operation("update", |database, chance| {
                    database.execute("UPDATE post SET likes = likes + 1 WHERE number = ?1", [self.any_post(chance)])?;
                    Ok(())
                })?,
                18 => session.operation("update", |database, chance| {
                    let (key, value) = (format!("key {}", chance.below(SETTINGS)), text(chance, 10, 60));
                    database.execute("UPDATE setting SET value = ?2 WHERE key = ?1", (key, value))?;
                    Ok(())
                })?,
                _ if self.next - self.oldest < 2 => (),
                _ => session.operation("delete", |database, _| {
                    database.execute("DELETE FROM post WHERE number = ?1", [self.oldest as i64])?;
                    self.oldest += 1;
                    Ok(())
                })?,
            }
        }
        Ok(())
    }

    fn rows(&self) -> Vec<(&'static str, u64)> {
        vec![("post", self.next - self.oldest), ("setting", SETTINGS)]
    }
}
