//! Tidy: a test over the sources. It checks the import rules of the crates and the size of files.

#[path = "sources/mod.rs"]
mod shipped;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use onewrite_block::mark::ALL;

/// Which of our other crates each crate may import. Tests and benchmarks may import everything.
const IMPORTS: [(&str, &[&str]); 12] = [
    ("onewrite-block", &[]),
    ("onewrite-device", &["onewrite-block"]),
    ("onewrite-cache", &["onewrite-block"]),
    ("onewrite-fs", &["onewrite-block", "onewrite-cache"]),
    ("onewrite-crash", &["onewrite-block", "onewrite-fs"]),
    ("onewrite-host", &["onewrite-block", "onewrite-device", "onewrite-fs"]),
    ("onewrite-c", &["onewrite-block", "onewrite-fs", "onewrite-host"]),
    ("onewrite-sqlite", &["onewrite-fs", "onewrite-host"]),
    ("onewrite-lab", LAB),
    ("onewrite-testing", &[]),
    ("onewrite-python", &["*"]),
    ("onewrite", &["*"]),
];
const LAB: &[&str] = &[
    "onewrite-block",
    "onewrite-device",
    "onewrite-cache",
    "onewrite-fs",
    "onewrite-crash",
    "onewrite-host",
    "onewrite-sqlite",
];

/// Most lines of a file. The test prints each file of more than 300.
const LINES_MAX: usize = 600;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates").to_owned()
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.extension() {
            _ if path.is_dir() => found.extend(sources(&path)),
            Some(extension) if extension == "rs" => found.push(path),
            _ => (),
        }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of our crates in the `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap_or_default();
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    section.lines().map(name).filter(|name| name.starts_with("onewrite")).collect()
}

#[test]
fn crates_import_only_what_lies_below_them() {
    for directory in fs::read_dir(crates()).expect("crates").flatten().map(|entry| entry.path()) {
        let Some(name) = directory.file_name().and_then(|name| name.to_str()) else { continue };
        let rule = IMPORTS.iter().find(|(crate_name, _)| *crate_name == name);
        let (_, allowed) = rule.unwrap_or_else(|| panic!("crate {name} has no import rule in tidy.rs"));
        for import in dependencies(&text(&directory.join("Cargo.toml"))) {
            let is_allowed = allowed.contains(&"*") || allowed.contains(&import.as_str());
            assert!(is_allowed, "{name} must not import {import}");
        }
    }
}

/// Rooms of the file systems, and the words that they must not name.
const ROOMS: [(&str, &[&str]); 2] = [("journal", &["ext4::", "f2fs::"]), ("pages", &["ext4::", "f2fs::", "journal::"])];

#[test]
fn the_journal_knows_no_inodes_and_formats_do_no_io() {
    for (room, unknown) in ROOMS {
        let files = sources(&crates().join("onewrite-fs/src").join(room));
        assert!(files.len() > 5, "the room {room} is empty");
        for path in files {
            let source = text(&path);
            let word = unknown.iter().find(|word| source.contains(**word));
            assert!(word.is_none(), "{} must not know {word:?}", path.display());
        }
    }
    let is_format = |path: &PathBuf| path.iter().any(|part| part == "format");
    let formats: Vec<PathBuf> = sources(&crates()).into_iter().filter(is_format).collect();
    assert!(formats.len() > 10, "only {} files in rooms called `format`", formats.len());
    for path in formats {
        let source = text(&path);
        let words = ["DevicePort", "async fn", ".await", "std::fs", "std::io"];
        let word = words.iter().find(|word| source.contains(**word));
        assert!(word.is_none(), "{} does I/O: {word:?}", path.display());
    }
}

#[test]
fn libraries_show_what_others_ask_for() {
    // Rustc holds them to it. Tests and programs cannot be held to it: nothing is outside.
    let roots = fs::read_dir(crates()).expect("crates").flatten().map(|entry| entry.path().join("src/lib.rs"));
    let libraries: Vec<PathBuf> = roots.filter(|root| root.exists()).collect();
    assert!(libraries.len() > 8, "only {} libraries", libraries.len());
    for root in libraries {
        let is_held = text(&root).contains("#![deny(unreachable_pub)]");
        assert!(is_held, "{}: say `#![deny(unreachable_pub)]`", root.display());
    }
}

#[test]
fn one_file_of_the_crash_explorer_knows_ext4() {
    // `mod.rs` says that the file is there.
    let allowed = ["subject/ext4.rs", "subject/mod.rs"];
    for path in sources(&crates().join("onewrite-crash/src")) {
        let is_allowed = allowed.iter().any(|end| path.ends_with(end));
        assert!(is_allowed || !text(&path).contains("ext4"), "{} must not know ext4", path.display());
    }
    let head = text(&crates().join("onewrite-crash/src/subject/mod.rs"));
    assert!(!head.contains("onewrite_fs::ext4"), "the trait must not know ext4");
}

/// What only drawings hold: elements of SVG, and the characters of lines and boxes.
const MARKS: [&str; 11] = ["<svg", "<rect", "<line", "<path", "<circle", "<polyline", "─", "│", "├", "└", "█"];

#[test]
fn all_drawing_is_in_one_room() {
    let room = crates().join("onewrite-lab/src/draw");
    assert!(sources(&room).len() > 5, "the room {} is empty", room.display());
    for path in sources(&crates()).into_iter().filter(|path| is_product(path) && !path.starts_with(&room)) {
        for line in shipped::shipped(&text(&path)).lines() {
            let mark = MARKS.iter().find(|mark| line.contains(**mark));
            assert!(mark.is_none(), "{} draws: {line}", path.display());
        }
    }
}

/// Whether a file is part of what we ship: no test, no benchmark.
fn is_product(path: &Path) -> bool {
    path.iter().any(|part| part == "src")
}

/// The files that may use `unsafe`, each for the reason at its head.
const UNSAFE: [&str; 14] = [
    "onewrite-block/src/runtime/crew.rs",
    "onewrite-block/tests/crew.rs",
    "onewrite-c/src/door.rs",
    "onewrite-c/src/drafts.rs",
    "onewrite-device/src/file/ring.rs",
    "onewrite-device/src/file/sys.rs",
    "onewrite-host/src/letters.rs",
    "onewrite-sqlite/src/door/application.rs",
    "onewrite-sqlite/src/door/chance.rs",
    "onewrite-sqlite/src/door/extension.rs",
    "onewrite-sqlite/src/door/file.rs",
    "onewrite-sqlite/src/door/machine.rs",
    "onewrite-sqlite/src/door/mod.rs",
    "onewrite-sqlite/tests/extension.rs",
];

#[test]
fn unsafe_code_stays_in_its_named_modules() {
    let uses_unsafe = |path: &Path| {
        text(path).lines().any(|line| line.trim_start().starts_with("unsafe ") || line.contains(" unsafe {"))
    };
    for path in UNSAFE.map(|name| crates().join(name)) {
        assert!(path.exists() && uses_unsafe(&path), "{} is not there, or needs no `unsafe`", path.display());
    }
    for path in sources(&crates()) {
        let is_allowed = UNSAFE.iter().any(|end| path.ends_with(end)) || path.ends_with("tidy.rs");
        assert!(is_allowed || !uses_unsafe(&path), "{} uses unsafe", path.display());
    }
}

/// The crates whose code runs as tasks of a core, which several threads carry on.
const ON_CORES: [&str; 5] = ["onewrite-block", "onewrite-cache", "onewrite-device", "onewrite-fs", "onewrite-host"];

/// The one exception: no answer of a run depends on it, and it holds no counted reference (decision 090).
const THREAD_LOCAL: &str = "onewrite-block/src/mark/mod.rs";

#[test]
fn no_task_has_a_thread_local_variable() {
    for path in ON_CORES.iter().flat_map(|name| sources(&crates().join(name).join("src"))) {
        let is_found = ["thread_local!", "#[thread_local]"].iter().any(|word| text(&path).contains(word));
        let is_allowed = path.ends_with(THREAD_LOCAL);
        assert_eq!(
            is_found,
            is_allowed,
            "{}: another thread sees another value; keep it in the task's state",
            path.display()
        );
    }
}

/// The marks in a source, in order.
fn marks(source: &str) -> Vec<String> {
    let code = shipped::shipped(source);
    let places = code.split("onewrite_block::reached!(").skip(1);
    places.filter_map(|place| place.split('"').nth(1)).map(str::to_owned).collect()
}

#[test]
fn each_mark_stands_at_one_place_and_in_the_list() {
    let list = text(&crates().join("../docs/marks.md"));
    let mut places = BTreeMap::new();
    for path in sources(&crates()).into_iter().filter(|path| is_product(path)) {
        for name in marks(&text(&path)) {
            let place = path.strip_prefix(crates()).expect("below it").to_string_lossy().replace("/src/", "/");
            let row = format!("| {name} | `{place}` |");
            assert!(list.contains(&row), "docs/marks.md has no row `{row}`; `make crash-marks` writes it");
            let before = places.insert(name.clone(), place.clone());
            assert_eq!(before, None, "the mark `{name}` in {place} stands elsewhere, too");
        }
    }
    for (_, name) in ALL {
        assert!(places.contains_key(name), "no source has the mark `{name}`; take it out of mark/names.rs");
    }
    assert!(places.len() >= 150, "only {} marks", places.len());
}

/// Most columns of a line.
const COLUMNS_MAX: usize = 120;

/// Documents that the program writes.
const WRITTEN: [&str; 2] = ["docs/results.md", "docs/ts-clock-tables.md"];

/// Names the first line of a text that is too wide, among those that `counts` takes.
fn too_wide(text: &str, counts: impl Fn(&str) -> bool) -> Option<String> {
    let wide = |line: &&str| line.chars().count() > COLUMNS_MAX && counts(line);
    let (number, line) = text.lines().enumerate().find(|(_, line)| wide(line))?;
    Some(format!("line {} has {} columns; at most {COLUMNS_MAX}", number + 1, line.chars().count()))
}

#[test]
fn no_line_of_code_is_too_wide() {
    for path in sources(&crates()) {
        let found = too_wide(&text(&path), |_| true);
        assert!(found.is_none(), "{}: {}", path.display(), found.unwrap_or_default());
    }
}

#[test]
fn no_line_of_a_document_is_too_wide() {
    let root = crates().parent().expect("a root").to_owned();
    let folders = [root.clone(), root.join("docs"), root.join("docs/decisions")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("documents")).flatten();
    let pages = files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "md"));
    let pages: Vec<PathBuf> = pages.filter(|path| !WRITTEN.iter().any(|end| path.ends_with(end))).collect();
    assert!(pages.len() > 30, "only {} documents", pages.len());
    for path in pages {
        // A row of a table is one line.
        let found = too_wide(&text(&path), |line| !line.trim_start().starts_with('|'));
        assert!(found.is_none(), "{}: {}", path.display(), found.unwrap_or_default());
    }
}

#[test]
fn no_line_of_a_script_is_too_wide() {
    let root = crates().parent().expect("a root").to_owned();
    let (mut scripts, mut pending) = (vec![root.join("Makefile"), root.join(".ci/run")], vec![crates()]);
    pending.push(root.join("scripts"));
    while let Some(folder) = pending.pop() {
        for path in fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
            match path.extension().and_then(|it| it.to_str()) {
                _ if path.is_dir() => pending.push(path),
                Some("sh" | "py" | "pyi" | "c" | "h") => scripts.push(path),
                _ => (),
            }
        }
    }
    assert!(scripts.len() > 20, "only {} scripts", scripts.len());
    for path in scripts {
        // A target's help is one line.
        let found = too_wide(&text(&path), |line| !line.starts_with("## "));
        assert!(found.is_none(), "{}: {}", path.display(), found.unwrap_or_default());
    }
}

#[test]
fn a_wide_line_is_found() {
    let wide = "x".repeat(COLUMNS_MAX + 1);
    assert_eq!(too_wide(&wide[1..], |_| true), None);
    assert!(too_wide(&format!("a\n{wide}\n"), |_| true).is_some_and(|found| found.starts_with("line 2 has 121")));
    assert_eq!(too_wide(&wide, |line| !line.starts_with('x')), None);
}

#[test]
fn no_file_is_too_long() {
    let mut long = Vec::new();
    for path in sources(&crates()) {
        let lines = text(&path).lines().count();
        if lines > 300 {
            long.push((lines, path));
        }
    }
    long.sort();
    long.iter().rev().for_each(|(lines, path)| println!("{lines:5} lines  {}", path.display()));
    let longest = long.last().map_or(0, |(lines, _)| *lines);
    assert!(longest <= LINES_MAX, "the longest file has {longest} lines; at most {LINES_MAX}");
}

/// Most methods of a type of the file systems, its own and those of its traits together. `Volume` of ext4 has the most:
/// what it tells drafts is two dozen of them. `Ext4` has one for each operation.
const METHODS_MAX: usize = 74;

/// Methods of each type that `code` implements something for: `impl A`, `impl<T> B for A<T>`.
fn methods(code: &str) -> BTreeMap<String, usize> {
    let (mut counts, mut head) = (BTreeMap::new(), None::<String>);
    for line in code.lines() {
        match &mut head {
            None if line.starts_with("impl") && line.ends_with('}') => (),
            None if line.starts_with("impl") => head = Some(line.to_owned()),
            Some(_) if line.starts_with('}') => head = None,
            Some(head) if !head.ends_with('{') => head.push_str(line),
            Some(head) if is_method(line) => *counts.entry(implementor(head)).or_default() += 1,
            _ => (),
        }
    }
    counts
}

/// Whether a method of an `impl` begins with this line.
fn is_method(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with(' ')) else { return false };
    let words = ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe"];
    let is_known = |word: &&str| words.contains(word) || word.starts_with("pub(in");
    let is_place = |word: &&str| word.starts_with("crate::") && word.ends_with(')');
    line.split(' ').find(|word| !is_known(word) && !is_place(word)) == Some("fn")
}

/// The type for which an `impl` implements: its last name, without what it takes.
fn implementor(head: &str) -> String {
    let mut depth = 0;
    let behind_generics = head.trim_start_matches("impl").find(|letter| {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        depth == 0 && letter == ' '
    });
    let subject = &head["impl".len() + behind_generics.unwrap_or(0)..];
    let subject = subject.split(" where").next().and_then(|subject| subject.split(" for ").last()).unwrap_or_default();
    let name = subject.trim().split(['<', ' ', '{']).next().unwrap_or_default();
    name.split("::").last().unwrap_or_default().to_owned()
}

#[test]
fn no_type_of_a_file_system_has_too_many_methods() {
    let root = crates().join("onewrite-fs/src");
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for path in sources(&root) {
        // Each file system has its own types: some have the same name.
        let room = path.strip_prefix(&root).expect("below it").iter().next().expect("a name").to_string_lossy();
        for (name, count) in methods(&shipped::shipped(&text(&path))) {
            *counts.entry((room.clone().into_owned(), name)).or_default() += count;
        }
    }
    let most = |name: &str| counts.get(&("ext4".to_owned(), name.to_owned())).copied().unwrap_or(0);
    assert!(most("Ext4") > 50 && most("Volume") > 30, "the count misses methods: {counts:?}");
    let too_many: Vec<_> = counts.iter().filter(|(_, count)| **count > METHODS_MAX).collect();
    assert!(too_many.is_empty(), "more than {METHODS_MAX} methods: {too_many:?}");
}

#[test]
fn methods_of_a_type_are_counted() {
    let code = [
        ["impl A {", "    pub fn one() {", "        fn two() {}", "    }", "    pub(super) async fn three() {}", "}"],
        ["impl<T: B<T>> c::D<T> for e::A<T>", "where", "    T: F,", "{", "    const fn four() {}", "}"],
        [
            "impl Default for G {}",
            "impl<T> A<T> {",
            "    const FIVE: fn() = f;",
            "    unsafe fn six() {}",
            "}",
            "fn seven() {}",
        ],
    ];
    let counts = methods(&code.concat().join("\n"));
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("A".to_owned(), 4)]);
}

#[test]
fn no_source_cites_a_design_that_is_not_here() {
    // The name is put together, so that this file does not hold it.
    let name = ["DES", "IGN §"].concat();
    for path in sources(&crates()) {
        assert!(!text(&path).contains(&name), "{} cites the design: say the rule, or cite a decision", path.display());
    }
}
