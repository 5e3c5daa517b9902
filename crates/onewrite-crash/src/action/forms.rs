//! Forms: how the actions of a script are written, for messages. `docs/crash-model.md` says what they do.

/// A form of each action; words in capitals stand for values.
const FORMS: &[&str] = &[
    "create PATH",
    "mkdir PATH",
    "rmdir PATH",
    "unlink PATH",
    "rename FROM TO",
    "exchange ONE OTHER",
    "link FROM TO",
    "symlink TARGET PATH",
    "write FILE OFFSET LENGTH SEED [direct]",
    "append FILE LENGTH SEED",
    "read FILE [direct]",
    "truncate FILE SIZE",
    "extend FILE OFFSET LENGTH",
    "zero FILE OFFSET LENGTH",
    "punch FILE OFFSET LENGTH",
    "collapse FILE OFFSET LENGTH",
    "insert FILE OFFSET LENGTH",
    "chmod FILE OCTAL",
    "chown FILE UID GID",
    "utimes FILE SECONDS",
    "setxattr FILE NAME LENGTH SEED",
    "removexattr FILE NAME",
    "open FILE NUMBER",
    "close NUMBER",
    "fsync FILE",
    "fdatasync FILE",
    "sync",
    "pause MILLISECONDS",
    "cut NUMBER",
    "draft NUMBER ACTION",
    "commit NUMBER…",
    "abort NUMBER…",
    "end NUMBER",
    "share SOURCE OFFSET TARGET OFFSET LENGTH… [lazily]",
];

/// What is wrong with an action of this name that has no meaning.
pub(super) fn wrong(name: &str) -> String {
    match FORMS.iter().find(|form| first_word(form) == name) {
        Some(form) => format!("it is written `{form}`"),
        None => {
            let names: Vec<&str> = FORMS.iter().map(|form| first_word(form)).collect();
            format!("no such action; there are {}", names.join(", "))
        }
    }
}

fn first_word(form: &str) -> &str {
    form.split(' ').next().unwrap_or(form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;

    /// An action of a form, with and without its last word in brackets.
    fn made(form: &str, has_optional: bool) -> String {
        let word = |word: &str| match word.trim_end_matches('…') {
            "PATH" | "FROM" | "TO" | "ONE" | "OTHER" | "TARGET" | "FILE" | "SOURCE" => "/a".to_owned(),
            "NAME" => "user.x".to_owned(),
            "ACTION" => "create /a".to_owned(),
            value if value.chars().all(char::is_uppercase) => "4".to_owned(),
            optional if optional.starts_with('[') => optional.trim_matches(['[', ']']).to_owned(),
            plain => plain.to_owned(),
        };
        let words = form.split(' ').filter(|word| has_optional || !word.starts_with('['));
        words.map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_form_is_understood() {
        for form in FORMS {
            for text in [made(form, false), made(form, true)] {
                assert!(text.parse::<Action>().is_ok(), "{text}");
            }
        }
    }

    #[test]
    fn a_wrong_action_is_told_its_form_and_an_unknown_one_all_names() {
        let told = |text: &str| text.parse::<Action>().unwrap_err().to_string();
        assert_eq!(told("rename /a"), "action `rename /a`: it is written `rename FROM TO`");
        assert!(told("creat /a").contains("there are create, mkdir,"), "{}", told("creat /a"));
    }
}
