//! Imports: no file imports another that imports it, by whatever way round.
//!
//! The test reads each file, outside its tests: its `use` lines, and the paths inside expressions, types and patterns
//! (`crate::a::b`, `super::c::d`, and `child::e` of a child of its own). A `pub use` hands a name on, and is passed
//! over. It does not see what a macro makes.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Crates that hold to the rule as a whole.
const CRATES: [&str; 10] = [
    "onewrite-block",
    "onewrite-c",
    "onewrite-cache",
    "onewrite-crash",
    "onewrite-device",
    "onewrite-fs",
    "onewrite-host",
    "onewrite-lab",
    "onewrite-python",
    "onewrite",
];

/// Files that are one module in several files: what they import of each other does not count. The runtime hands itself
/// to its handles, and they are its state.
const WHOLE: [(&str, &str); 1] = [("onewrite-block", "runtime")];

/// Text of each module by its path: `["ssd", "host"]`.
type Modules = BTreeMap<Vec<String>, String>;

fn read(directory: &Path, path: &[String], modules: &mut Modules) {
    for entry in fs::read_dir(directory).expect("sources").flatten().map(|entry| entry.path()) {
        let stem = entry.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let below = [path, std::slice::from_ref(&stem)].concat();
        match stem.as_str() {
            _ if entry.is_dir() => read(&entry, &below, modules),
            "lib" | "main" => (),
            "mod" => drop(modules.insert(path.to_vec(), text(&entry))),
            _ => drop(modules.insert(below, text(&entry))),
        }
    }
}

/// The code of a file without comments and tests.
fn text(path: &Path) -> String {
    sources::shipped(&fs::read_to_string(path).expect("a source"))
}

/// The paths that a `use` names: `a::{b, c::d}` names two.
fn named(list: &str) -> Vec<String> {
    let Some((head, rest)) = list.split_once('{') else { return vec![list.trim().to_owned()] };
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in rest.trim_end().strip_suffix('}').unwrap_or(rest).chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match (letter, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().expect("never empty").push(letter),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| named(&(head.trim().to_owned() + part.trim()))).collect()
}

/// The module that a path names from `module`, if it is one of ours.
fn target(module: &[String], path: &str, modules: &Modules) -> Option<Vec<String>> {
    let mut words: Vec<String> = path.split("::").map(str::to_owned).collect();
    let mut from = module.to_vec();
    match words.first()?.as_str() {
        "crate" => from.clear(),
        "super" => drop(from.pop()),
        "self" => (),
        _ => words.insert(0, "self".into()),
    }
    words.remove(0);
    while words.first().is_some_and(|word| word == "super") {
        from.pop();
        words.remove(0);
    }
    let mut whole = [from, words].concat();
    while !whole.is_empty() && !modules.contains_key(&whole) {
        whole.pop();
    }
    (!whole.is_empty() && whole != module).then_some(whole)
}

/// Splits a statement into what stands before its `use`, if it is one, and what that imports. A `pub use` imports
/// nothing.
fn parts(statement: &str) -> (&str, Vec<String>) {
    let found = ["\nuse ", "\npub use ", "\npub(super) use ", "\npub(crate) use "].iter();
    match found.filter_map(|word| Some((statement.find(word)?, *word))).next() {
        Some((at, word @ "\nuse ")) => (&statement[..at], named(&statement[at + word.len()..])),
        Some((at, _)) => (&statement[..at], Vec::new()),
        None => (statement, Vec::new()),
    }
}

/// The paths in `code` from the crate's root, from a parent or from one of `children`, other than the place in
/// `pub(in crate::a)`.
fn paths(code: &str, children: &[&str]) -> Vec<String> {
    let words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let is_rooted = |word: &str| {
        let root = word.split_once("::").map(|(root, _)| root);
        root.is_some_and(|root| ["crate", "super", "self"].contains(&root) || children.contains(&root))
    };
    let is_path = |at: &usize| is_rooted(words[*at]) && !words[..*at].ends_with(&["pub", "in"]);
    (0..words.len()).filter(is_path).map(|at| words[at].trim_matches(':').to_owned()).collect()
}

fn imports(module: &[String], modules: &Modules) -> BTreeSet<Vec<String>> {
    let is_child = |other: &&Vec<String>| other.len() == module.len() + 1 && other.starts_with(module);
    let children: Vec<&str> = modules.keys().filter(is_child).map(|child| child[module.len()].as_str()).collect();
    let all = modules[module].split(';').flat_map(|statement| {
        let (code, imported) = parts(statement);
        [imported, paths(code, &children)].concat()
    });
    all.filter_map(|path| target(module, &path, modules)).collect()
}

/// A module that imports itself by way of others, and that way.
fn circle(modules: &Modules) -> Option<Vec<Vec<String>>> {
    let mut left: BTreeMap<_, _> = modules.keys().map(|module| (module.clone(), imports(module, modules))).collect();
    // Whoever imports nothing that is left cannot be part of a circle.
    while let Some(module) = left.iter().find(|(_, to)| !to.iter().any(|to| left.contains_key(to))).map(|it| it.0) {
        let module = module.clone();
        left.remove(&module);
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let last = way.last().expect("never empty");
        let next = left[last].iter().find(|to| left.contains_key(*to)).expect("it imports something that is left");
        if let Some(start) = way.iter().position(|module| module == next) {
            return Some(way.split_off(start));
        }
        way.push(next.clone());
    }
}

/// Makes the files below `whole` one module with it.
fn join(modules: &mut Modules, whole: &str) {
    let parts: Vec<_> = modules.keys().filter(|path| path[0] == whole && path.len() > 1).cloned().collect();
    assert!(parts.len() > 3, "{whole} is one file");
    let text: String = parts.iter().filter_map(|part| modules.remove(part)).collect();
    // What a part names from its parent is within the whole.
    let text = text.replace("super::", "self::");
    modules.get_mut(&[whole.to_owned()][..]).expect("a module with parts").push_str(&text);
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    for name in CRATES {
        let mut modules = Modules::new();
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &[], &mut modules);
        assert!(modules.len() > 3, "{name}: only {} files were found", modules.len());
        for (_, whole) in WHOLE.iter().filter(|(of, _)| *of == name) {
            join(&mut modules, whole);
        }
        let found = circle(&modules);
        assert!(found.is_none(), "{name}: {found:?}");
    }
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str, text: &str| (vec![name.to_owned()], text.to_owned());
    let [one, two] = [module("one", "\nuse crate::two::{A, deep::B};\n"), module("two", "\nuse super::three;\n")];
    let sound = Modules::from([one.clone(), two.clone(), module("three", "\nuse std::fmt;\npub use crate::one::C;\n")]);
    assert_eq!(circle(&sound), None);
    let round = Modules::from([one, two, module("three", "\nuse crate::one::C;\n")]);
    assert_eq!(circle(&round).map(|way| way.len()), Some(3));
}

#[test]
fn a_circle_through_an_expression_is_found() {
    let module = |name: &str, text: &str| (vec![name.to_owned()], text.to_owned());
    let one = module("one", "\nuse crate::two::A;\nfn f() {}\n");
    let circles = |text: &str| circle(&Modules::from([one.clone(), module("two", text)])).is_some();
    assert!(circles("\nfn g() {\n    super::one::f();\n}\n"));
    assert!(circles("\nfn g(b: &crate::one::B<u8>) {}\n"));
    assert!(!circles("\npub use super::one::f;\npub(in crate::one) fn g() -> u8 {\n    super::three::f()\n}\n"));
}

#[test]
fn a_circle_through_a_call_of_a_child_is_found() {
    let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let child = (path(&["one", "child"]), "\nuse super::A;\n".to_owned());
    let circles = |text: &str| circle(&Modules::from([(path(&["one"]), text.to_owned()), child.clone()])).is_some();
    assert!(circles("\nmod child;\nfn f() {\n    child::g();\n}\n"));
    assert!(circles("\nmod child;\nfn f() {\n    self::child::g();\n}\n"));
    assert!(!circles("\nmod child;\npub use child::g;\nfn f() -> other::child::B {}\n"));
}
