//! Imports: no file imports another that imports it, by whatever way round.
//!
//! The test reads each file, outside its tests: its `use` lines, and the paths inside expressions, types and patterns
//! (`crate::a::b`, `super::c::d`, and `child::e` of a child of its own). A `pub use` hands a name on: who imports that
//! name imports the file that it comes from, not the one that hands it on. The test does not see what a macro makes,
//! nor a file's own use of names that it hands on.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Crates that hold to the rule as a whole.
const CRATES: [&str; 11] = [
    "onewrite-block",
    "onewrite-c",
    "onewrite-cache",
    "onewrite-crash",
    "onewrite-device",
    "onewrite-fs",
    "onewrite-host",
    "onewrite-lab",
    "onewrite-python",
    "onewrite-sqlite",
    "onewrite",
];

/// Files that are one module in several files: what they import of each other does not count. The runtime hands itself
/// to its handles, and they are its state.
const WHOLE: [(&str, &str); 1] = [("onewrite-block", "runtime")];

/// The path of a module, or of what stands in one: `["ssd", "host"]`. That of `lib.rs` and `main.rs` is empty.
type Names = Vec<String>;

/// Text of each module by its path.
type Modules = BTreeMap<Names, String>;

/// Where the names come from that modules hand on: by the module's path with the name behind it.
type HandedOn = BTreeMap<Names, Names>;

fn read(directory: &Path, path: &[String], modules: &mut Modules) {
    for entry in fs::read_dir(directory).expect("sources").flatten().map(|entry| entry.path()) {
        let stem = entry.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let below = [path, std::slice::from_ref(&stem)].concat();
        match stem.as_str() {
            _ if entry.is_dir() => read(&entry, &below, modules),
            "mod" | "lib" | "main" => modules.entry(path.to_vec()).or_default().push_str(&text(&entry)),
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

/// What `path` names in the file of `module`, from the crate's root.
fn rooted(module: &[String], path: &str) -> Names {
    let path = path.split(" as ").next().unwrap_or_default().trim_end_matches("::self");
    let mut words: Vec<String> = path.split("::").map(str::to_owned).collect();
    let mut from = module.to_vec();
    match words[0].as_str() {
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
    [from, words].concat()
}

/// The module in whose file `whole` stands, by way of those that hand it on.
fn home(whole: &[String], modules: &Modules, handed_on: &HandedOn) -> Names {
    let length = (0..=whole.len()).rev().find(|length| modules.contains_key(&whole[..*length])).unwrap_or(0);
    let (name, rest) = whole.split_at(whole.len().min(length + 1));
    match handed_on.get(name) {
        // A macro is handed on by the file that has it.
        Some(source) if source != name => home(&[source, rest].concat(), modules, handed_on),
        _ => whole[..length].to_vec(),
    }
}

/// A statement by its parts.
struct Statement<'a> {
    /// What stands before its `use`, if it has one.
    code: &'a str,
    /// What it imports for its file alone.
    imported: Vec<String>,
    /// What it hands on to others.
    handed_on: Vec<String>,
}

fn parts(code: &str) -> Statement<'_> {
    let whole = Statement { code, imported: Vec::new(), handed_on: Vec::new() };
    let is_use = |line: &str| line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ");
    let Some(at) = code.match_indices('\n').map(|(at, _)| at).find(|at| is_use(&code[at + 1..])) else { return whole };
    let (code, line) = code.split_at(at);
    let (visibility, list) = line.split_once("use ").expect("it is one");
    match visibility.trim() {
        "" => Statement { code, imported: named(list), ..whole },
        _ => Statement { code, handed_on: named(list), ..whole },
    }
}

/// What each module hands on.
fn handed_on(modules: &Modules) -> HandedOn {
    let all = modules.iter().flat_map(|(module, text)| {
        let paths = text.split(';').flat_map(|statement| parts(statement).handed_on);
        paths.map(|path| {
            let name =
                path.split(" as ").last().and_then(|path| path.split("::").last()).unwrap_or_default().to_owned();
            ([module.as_slice(), &[name]].concat(), rooted(module, &path))
        })
    });
    all.collect()
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

fn imports(module: &[String], modules: &Modules, handed_on: &HandedOn) -> BTreeSet<Names> {
    let is_child = |other: &&Names| other.len() == module.len() + 1 && other.starts_with(module);
    let children: Vec<&str> = modules.keys().filter(is_child).map(|child| child[module.len()].as_str()).collect();
    let all = modules[module].split(';').flat_map(|statement| {
        let Statement { code, imported, .. } = parts(statement);
        [imported, paths(code, &children)].concat()
    });
    let homes = all.map(|path| home(&rooted(module, &path), modules, handed_on));
    homes.filter(|home| home != module && modules.contains_key(home)).collect()
}

/// A module that imports itself by way of others, and that way.
fn circle(modules: &Modules) -> Option<Vec<Names>> {
    let handed_on = handed_on(modules);
    let imports = |module: &Names| (module.clone(), imports(module, modules, &handed_on));
    let mut left: BTreeMap<_, _> = modules.keys().map(imports).collect();
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
    let parts: Vec<_> = modules.keys().filter(|path| path.len() > 1 && path[0] == whole).cloned().collect();
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

#[test]
fn a_circle_through_a_name_that_is_handed_on_is_found() {
    let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Names>();
    let circles = |root: &str, one: &str| {
        let room = (path(&["room"]), format!("\nmod one;\nmod two;\n{root};\n"));
        let two = (path(&["room", "two"]), "\nuse super::one::A;\n".to_owned());
        let root = (path(&[]), "\nmod room;\npub use room::{two::B as D, one::A};\n".to_owned());
        circle(&Modules::from([root, room, (path(&["room", "one"]), one.to_owned()), two])).is_some()
    };
    assert!(circles("pub(super) use two::B", "\nuse super::B;\n"));
    assert!(circles("pub use two::{B, C}", "\nfn f(c: &super::C) {}\n"));
    assert!(circles("pub(in crate::room) use two::B as C", "\nuse super::C;\n"));
    assert!(circles("", "\nuse crate::D;\n"));
    assert!(!circles("pub use two::B", "\nuse super::C;\n"));
    assert!(!circles("pub use two::B", "\npub use super::B;\n"));
}
