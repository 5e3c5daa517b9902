//! A load like that of a mail application: a message comes with its labels and changes its conversation, messages are
//! read and marked, conversations are listed, old messages go.
//!
//! Ours: the traces of `papers/000` §3.6.3 are not public. Of 20 operations 6 list a conversation, 8 insert a message
//! of 1 to 12 KiB with two labels and update its conversation in one transaction, 4 mark a message as read (one label
//! goes), 2 delete a message with its labels. A transaction changes several tables and their indexes.

use onewrite_block::Choices;
use rusqlite::{Connection, Result};

use super::application::{Application, Session, text};

const OPERATIONS: u32 = 1_000;
/// Messages that are there before.
const MESSAGES: u64 = 300;
const CONVERSATIONS: u64 = 100;
const UNREAD: i64 = 1;
const INBOX: i64 = 2;

pub(super) struct Gmail {
    operations: u32,
    /// Numbers of the oldest message and of the next one.
    oldest: u64,
    next: u64,
    /// Messages that were not marked as read, in order.
    unread: Vec<u64>,
    labels: u64,
}

impl Gmail {
    pub(super) fn new(operations: Option<u32>) -> Gmail {
        Gmail { operations: operations.unwrap_or(OPERATIONS), oldest: 1, next: 1, unread: Vec::new(), labels: 0 }
    }

    fn insert(&mut self, database: &Connection, chance: &mut Choices) -> Result<()> {
        let (message, conversation) = (self.next as i64, chance.below(CONVERSATIONS) as i64);
        let (sender, subject, body) = (text(chance, 10, 30), text(chance, 20, 60), text(chance, 1 << 10, 12 << 10));
        let sql = "INSERT INTO message VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        database.execute(sql, (message, conversation, 1_000 * message, sender, subject, body))?;
        for label in [UNREAD, INBOX] {
            database.execute("INSERT INTO label VALUES (?1, ?2)", (label, message))?;
        }
        let sql = "UPDATE conversation SET messages = messages + 1, newest = ?2 WHERE number = ?1";
        database.execute(sql, (conversation, message))?;
        self.unread.push(self.next);
        (self.next, self.labels) = (self.next + 1, self.labels + 2);
        Ok(())
    }

    fn mark(&mut self, database: &Connection, chance: &mut Choices) -> Result<()> {
        let message = self.unread.remove(chance.index(self.unread.len()));
        database.execute("DELETE FROM label WHERE label = ?1 AND message = ?2", (UNREAD, message as i64))?;
        self.labels -= 1;
        Ok(())
    }

    fn delete(&mut self, database: &Connection) -> Result<()> {
        let message = self.oldest as i64;
        database.execute("DELETE FROM message WHERE number = ?1", [message])?;
        self.labels -= database.execute("DELETE FROM label WHERE message = ?1", [message])? as u64;
        self.unread.retain(|unread| *unread != self.oldest);
        self.oldest += 1;
        Ok(())
    }

    /// Does one operation.
    fn step(&mut self, session: &mut Session<'_>) -> Result<()> {
        match session.chance.below(20) {
            0..6 => session.operation("select", list),
            6..14 => session.operation("insert", |database, chance| whole(database, |all| self.insert(all, chance))),
            14..18 if !self.unread.is_empty() => {
                session.operation("update", |database, chance| whole(database, |all| self.mark(all, chance)))
            }
            18.. if self.next - self.oldest > 1 => {
                session.operation("delete", |database, _| whole(database, |all| self.delete(all)))
            }
            _ => Ok(()),
        }
    }
}

/// Does `work` as one transaction.
fn whole(database: &Connection, work: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
    let transaction = database.unchecked_transaction()?;
    work(&transaction)?;
    transaction.commit()
}

/// Lists a conversation.
fn list(database: &Connection, chance: &mut Choices) -> Result<()> {
    let sql = "SELECT sender, subject, body FROM message WHERE conversation = ?1 ORDER BY received DESC LIMIT 10";
    let mut statement = database.prepare(sql)?;
    let mut rows = statement.query([chance.below(CONVERSATIONS) as i64])?;
    while rows.next()?.is_some() {}
    Ok(())
}

impl Application for Gmail {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<()> {
        session.database.execute_batch(
            "CREATE TABLE message (number INTEGER PRIMARY KEY, conversation INTEGER, received INTEGER, sender TEXT,
                                   subject TEXT, body TEXT);
             CREATE INDEX message_by_conversation ON message (conversation, received);
             CREATE TABLE conversation (number INTEGER PRIMARY KEY, messages INTEGER, newest INTEGER);
             CREATE TABLE label (label INTEGER, message INTEGER, PRIMARY KEY (label, message));
             CREATE INDEX label_by_message ON label (message)",
        )?;
        let (database, chance) = (session.database, &mut session.chance);
        whole(database, |all| {
            for number in 0..CONVERSATIONS {
                all.execute("INSERT INTO conversation VALUES (?1, 0, 0)", [number as i64])?;
            }
            (0..MESSAGES).try_for_each(|_| self.insert(all, chance))
        })
    }

    fn work(&mut self, session: &mut Session<'_>) -> Result<()> {
        (0..self.operations).try_for_each(|_| self.step(session))
    }

    fn rows(&self) -> Vec<(&'static str, u64)> {
        vec![("message", self.next - self.oldest), ("conversation", CONVERSATIONS), ("label", self.labels)]
    }
}
