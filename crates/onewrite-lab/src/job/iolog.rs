//! Iolog: the recorded accesses of `read_iolog`, in fio's text formats 2 and 3.
//!
//! ```text
//!   fio version 2 iolog              fio version 3 iolog
//!   /file add                        0 /file add
//!   /file open                       0 /file open
//!   /file wait 2000 0                2000 /file write 0 4096
//!   /file write 0 4096               2100 /file sync 0 0
//! ```
//!
//! In version 2 each `wait` gives the time since the `wait` before it, in microseconds. In version 3 each line begins
//! with its time since the beginning, in microseconds. [`Iolog`] keeps both as times since the beginning.

use onewrite_block::Nanos;

use super::value;

/// One recorded action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time since the beginning.
    pub at: Nanos,
    /// Index of the file.
    pub file: usize,
    /// What was done.
    pub action: Action,
}

/// A recorded operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A read: offset and length in bytes.
    Read(u64, u64),
    /// A write: offset and length in bytes.
    Write(u64, u64),
    /// A trim: offset and length in bytes.
    Trim(u64, u64),
    /// fsync.
    Sync,
    /// fdatasync.
    Datasync,
}

/// A recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iolog {
    /// Its files, by their recorded paths.
    pub files: Vec<String>,
    /// Its events, in order.
    pub events: Vec<Event>,
}

/// Shorter waits are ignored, as fio does.
const WAIT_LEAST_US: u64 = 100;

impl Iolog {
    /// Parses the text of an iolog.
    ///
    /// # Errors
    /// The line, counted from one, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Iolog, (usize, String)> {
        let mut lines = text.lines().enumerate();
        let is_timed = match lines.next().map(|(_, head)| head.trim()) {
            Some("fio version 2 iolog") => false,
            Some("fio version 3 iolog") => true,
            _ => return Err((1, "the first line must be `fio version 2 iolog` or `fio version 3 iolog`".to_owned())),
        };
        let mut log = Iolog::default();
        let mut now = 0;
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            log.line(&words, is_timed, &mut now).map_err(|problem| (index + 1, problem))?;
        }
        Ok(log)
    }

    fn line(&mut self, words: &[&str], is_timed: bool, now: &mut u64) -> Result<(), String> {
        let words = match words {
            [time, rest @ ..] if is_timed => {
                *now = number(time)?;
                rest
            }
            _ => words,
        };
        match *words {
            [name, "add"] => self.add(name),
            [name, "open" | "close"] => self.file(name).map(drop),
            [_, "wait", span, ..] if !is_timed => {
                let span = number(span).map(|span| if span < WAIT_LEAST_US { 0 } else { span })?;
                *now = now.checked_add(span).ok_or("its time is too large")?;
                Ok(())
            }
            [name, action, offset, length] => {
                let file = self.file(name)?;
                let action = action_of(action, number(offset)?, number(length)?)?;
                let at = value::in_time("its time", now.checked_mul(1000))?;
                self.events.push(Event { at, file, action });
                Ok(())
            }
            _ => Err("not an action: `FILE add|open|close`, or `FILE read|write|sync|datasync|trim OFFSET LENGTH`"
                .to_owned()),
        }
    }

    fn add(&mut self, name: &str) -> Result<(), String> {
        if !self.files.iter().any(|file| file == name) {
            self.files.push(name.to_owned());
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Result<usize, String> {
        let index = self.files.iter().position(|file| file == name);
        index.ok_or_else(|| format!("`{name}` was not added before"))
    }
}

impl Action {
    /// Offset and length in bytes; none for a sync.
    pub const fn range(self) -> Option<(u64, u64)> {
        match self {
            Action::Read(offset, length) | Action::Write(offset, length) | Action::Trim(offset, length) => {
                Some((offset, length))
            }
            Action::Sync | Action::Datasync => None,
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

fn action_of(name: &str, offset: u64, length: u64) -> Result<Action, String> {
    offset.checked_add(length).filter(|end| *end <= i64::MAX as u64).ok_or("it ends beyond 2^63 bytes")?;
    match name {
        "read" => Ok(Action::Read(offset, length)),
        "write" => Ok(Action::Write(offset, length)),
        "trim" => Ok(Action::Trim(offset, length)),
        "sync" => Ok(Action::Sync),
        "datasync" => Ok(Action::Datasync),
        other => Err(format!("`{other}` is no action; read, write, trim, sync and datasync are")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_give_the_same_times() {
        let two = Iolog::parse(
            "fio version 2 iolog\n/f add\n/f open\n/f wait 2000 0\n/f write 0 4096\n/f wait 50 0\n/f sync 0 \
             0\n/f close\n",
        );
        let three = Iolog::parse(
            "fio version 3 iolog\n0 /f add\n0 /f open\n2000 /f write 0 4096\n2000 /f sync 0 0\n9 /f close\n",
        );
        let two = two.unwrap();
        assert_eq!(two, three.unwrap());
        assert_eq!((two.events[0].at, two.events[0].action), (Nanos::from_millis(2), Action::Write(0, 4096)));
    }

    #[test]
    fn sums_that_do_not_fit_are_refused() {
        let wait = "/f wait 18446744073709551615 0\n";
        for lines in [
            wait.repeat(2),
            format!("{wait}/f write 0 4096\n"),
            "/f wait 18446744073709551 0\n/f write 0 4096\n".to_owned(),
            "/f write 18446744073709547520 4095\n".to_owned(),
        ] {
            assert!(Iolog::parse(&format!("fio version 2 iolog\n/f add\n{lines}")).is_err(), "{lines}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line) in [
            ("fio version 1 iolog\n", 1),
            ("fio version 2 iolog\n/f open\n", 2),
            ("fio version 2 iolog\n/f add\n/f write 0\n", 3),
            ("fio version 3 iolog\n0 /f add\n0 /f erase 0 1\n", 3),
            ("fio version 2 iolog\n/f add\n/f read 18446744073709551615 9\n", 3),
        ] {
            assert_eq!(Iolog::parse(text).unwrap_err().0, line, "{text}");
        }
    }
}
