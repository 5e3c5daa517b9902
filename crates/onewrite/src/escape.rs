//! Escapes: keeps names and messages from controlling a terminal.
//!
//! A name in an image is under the control of whoever wrote it. It may hold line breaks, escape sequences, marks that
//! change the direction of writing, or invalid UTF-8. Output for a person is escaped as `ls -b` does (`
//! `, `\033`, `\\`); output to a pipe or file stays the same, byte for byte.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::IsTerminal;

/// A name for display: escapes control characters, marks of direction, backslashes and bytes that are not UTF-8.
pub fn name(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => shown.push_str("\\\\"),
                '\n' => shown.push_str("\\n"),
                '\t' => shown.push_str("\\t"),
                '\r' => shown.push_str("\\r"),
                _ => push(&mut shown, character),
            }
        }
        chunk.invalid().iter().for_each(|byte| octal(&mut shown, *byte));
    }
    shown
}

/// A message for display: like [`name`], but keeps line breaks, tabs and backslashes.
pub fn message(text: &str) -> Cow<'_, str> {
    let is_own = |character: char| matches!(character, '\n' | '\t') || !commands(character);
    if text.chars().all(is_own) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_own(character) {
            true => shown.push(character),
            false => push(&mut shown, character),
        }
    }
    Cow::Owned(shown)
}

/// A name for standard output: escaped on a terminal, raw elsewhere.
pub fn for_stdout(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::io::stdout().is_terminal() {
        true => Cow::Owned(name(bytes).into_bytes()),
        false => Cow::Borrowed(bytes),
    }
}

fn push(shown: &mut String, character: char) {
    match commands(character) {
        true => character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| octal(shown, byte)),
        false => shown.push(character),
    }
}

fn octal(shown: &mut String, byte: u8) {
    write!(shown, "\\{byte:03o}").expect("a string takes everything");
}

/// Whether it is a control character, a line or paragraph separator, or a mark that changes the direction of writing.
fn commands(character: char) -> bool {
    let turns =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(name(b"a\x1b[31mb\nc\\d\xffe"), "a\\033[31mb\\nc\\\\d\\377e");
        assert_eq!(name("\u{9b}2J".as_bytes()), "\\302\\2332J");
        assert_eq!(name("exe\u{202e}gpj".as_bytes()), "exe\\342\\200\\256gpj");
        assert_eq!(name("grün und 日本 😀".as_bytes()), "grün und 日本 😀");
    }

    #[test]
    fn a_message_keeps_its_lines_and_backslashes() {
        assert_eq!(message("one\ntwo\\n"), "one\ntwo\\n");
        assert_eq!(message("a\x1b]0;x\x07b"), "a\\033]0;x\\007b");
    }
}
