#!/usr/bin/env python3
"""Mutants: builds a copy of the tree with every bug of mutants/*.toml in it, switchable, and reports what catches each.

One build holds all mutants; the environment variable ONEWRITE_MUTANT switches one of them on. A mutant meets the crash
explorer first, with the workloads that its table names, then the tests of the crates that have mutants. Nothing of this
is in the product's own source. `mutants.py --help` lists the options; docs/mutants.md says how to read the result.

Each test first runs alone, with no mutant on, and notes which mutants' code it reaches. A mutant then meets only these
tests, the fastest first, until one fails. With `--marks` these runs note marks (`reached!`), too.
"""

import argparse
import concurrent.futures
import filecmp
import fnmatch
import hashlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = "<!-- the last run -->"
# Crates in which the explorer spends no time: where nothing else runs, they are not optimised.
IDLE = ["onewrite", "onewrite-host", "onewrite-lab"]
# Of a sample of those that a page says were caught: states within which they were.
SOON = 1_000
# Marks are noted as numbers from here on, above those of mutants.
FIRST_MARK = 2048
MARKS, MARKS_NAMES = "crates/onewrite-block/src/mark/mod.rs", "crates/onewrite-block/src/mark/names.rs"
# What the copy has instead, so that marks are heard and noted while tests are traced.
MARKS_TRACED = [
    ("    LISTENERS.load(Ordering::Relaxed) != 0\n",
     "    crate::mutants::notes_marks() || LISTENERS.load(Ordering::Relaxed) != 0\n"),
    ("pub fn note(number: usize) {\n",
     f"pub fn note(number: usize) {{\n    let _ = crate::mutants::is_on({FIRST_MARK} + number as u32);\n"),
]
SWITCH = '''//! Which mutant is on.
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mutant that is on; 0 for none, `TRACING` for none while all that are reached are noted.
static ON: OnceLock<u32> = OnceLock::new();
static IS_REACHED: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];
const TRACING: u32 = u32::MAX;

/// Whether mutant `number` is on. The first time that it is, or would be, notes it.
#[inline]
pub(crate) fn is_on(number: u32) -> bool {
    let named = |on: String| if on == "trace" { TRACING } else { on.parse().unwrap_or(0) };
    let on = *ON.get_or_init(|| std::env::var("ONEWRITE_MUTANT").map_or(0, named));
    let is_on = on == number;
    if (is_on || on == TRACING) && !IS_REACHED[number as usize].swap(true, Ordering::Relaxed) {
        note(number);
    }
    is_on
}

/// Whether marks are noted, too.
#[allow(dead_code)]
pub(crate) fn notes_marks() -> bool {
    static NOTES: OnceLock<bool> = OnceLock::new();
    *NOTES.get_or_init(|| std::env::var_os("ONEWRITE_MARKS_NOTED").is_some())
}

fn note(number: u32) {
    let Ok(path) = std::env::var("ONEWRITE_MUTANT_REACHED") else { return };
    if let Ok(mut file) = std::fs::File::options().create(true).append(true).open(path) {
        let _ = file.write_all(format!("{number}\\n").as_bytes());
    }
}
'''


class Mutant:
    """One bug: where it is, what it breaks, and how to look for it."""

    def __init__(self, table, row, data, number):
        self.table, self.number = table, number
        self.name, self.file = row["name"], row["file"]
        self.text, self.mutation = row["from"], row["to"]
        self.breaks = row["breaks"]
        self.explore = row.get("explore", data.get("explore", [])) + data.get("then", [])


def fail(message):
    sys.exit(f"mutants: {message}")


def tables():
    """All mutants of mutants/*.toml, numbered from 1."""
    mutants = []
    for path in sorted((ROOT / "mutants").glob("*.toml")):
        data = tomllib.loads(path.read_text())
        for row in data.get("mutant", []):
            lacks = [key for key in ("name", "file", "from", "to", "breaks") if key not in row]
            if lacks:
                fail(f"{path.name}: {row.get('name', row)} lacks {', '.join(lacks)}")
            mutants.append(Mutant(path.stem, row, data, len(mutants) + 1))
    return mutants


def problems(mutants):
    """What is wrong with the table, a line each."""
    found, places, names = [], {}, set()
    for mutant in mutants:
        path = ROOT / mutant.file
        count = path.read_text().count(mutant.text) if path.is_file() else 0
        if count != 1:
            found.append(f"{mutant.name}: its text occurs {count} times in {mutant.file}")
            continue
        if mutant.name in names:
            found.append(f"{mutant.name}: two mutants have this name")
        names.add(mutant.name)
        if "MUTANT" not in mutant.mutation:
            found.append(f"{mutant.name}: `to` does not say MUTANT")
        start = path.read_text().index(mutant.text)
        end = start + len(mutant.text)
        for other, (first, last) in places.get(mutant.file, []):
            if start < last and first < end:
                found.append(f"{mutant.name}: overlaps {other}")
        places.setdefault(mutant.file, []).append((mutant.name, (start, end)))
        if not mutant.explore:
            found.append(f"{mutant.name}: no workload to explore")
    return found


def mutated_tree(tree, mutants, has_tests):
    """Copies the tracked files to `tree` and puts the mutants in. Unchanged files keep their times."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    names = [name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]
    texts = {}
    for mutant in mutants:
        text = texts.get(mutant.file) or (ROOT / mutant.file).read_text()
        to = mutant.mutation.replace("MUTANT", f"crate::mutants::is_on({mutant.number})")
        texts[mutant.file] = text.replace(mutant.text, to)
    texts[MARKS] = with_traced_marks(texts.get(MARKS) or (ROOT / MARKS).read_text())
    for crate in {"/".join(file.split("/")[:2]) for file in texts}:
        library = f"{crate}/src/lib.rs"
        text = texts.get(library) or (ROOT / library).read_text()
        texts[library] = re.sub(r"^(pub )?mod ", r"mod mutants;\n\g<0>", text, count=1, flags=re.M)
        texts[f"{crate}/src/mutants.rs"] = SWITCH
    for name in names:
        if name not in texts and name != "Cargo.toml":
            copied(ROOT / name, tree / name)
    for name, text in texts.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
    manifest = re.sub('"deny"', '"allow"', (ROOT / "Cargo.toml").read_text())
    manifest += "".join(f"\n[profile.test.package.{crate}]\nopt-level = 0\n" for crate in IDLE if not has_tests)
    if not (tree / "Cargo.toml").is_file() or (tree / "Cargo.toml").read_text() != manifest:
        (tree / "Cargo.toml").write_text(manifest)
    wanted = set(names) | set(texts)
    for path in [path for path in tree.rglob("*") if path.is_file()]:
        if str(path.relative_to(tree)) not in wanted:
            path.unlink()


def with_traced_marks(text):
    """The module of marks, as the copy has it."""
    for plain, traced in MARKS_TRACED:
        if text.count(plain) != 1:
            fail(f"{MARKS} does not have `{plain.strip()}` once")
        text = text.replace(plain, traced)
    return text


def tests_of_marks(tests):
    """For each mark, how many tests reach it, and the fastest of them. Tests of marks themselves only call them."""
    tests = [test for test in tests if not test.name.startswith("mark::")]
    names = re.findall(r'^ +\(Room::\w+, "([^"]+)"\)', (ROOT / MARKS_NAMES).read_text(), re.M)
    by_mark = {name: [test for test in tests if FIRST_MARK + at in test.reaches] for at, name in enumerate(names)}
    said = lambda test: f"{test.program}: {test.name}"
    return {name: [len(of), said(min(of, key=lambda test: test.seconds)) if of else ""] for name, of in by_mark.items()}


def copied(source, target):
    """Copies a file that differs. Its time is now: cargo would not see one older than the last build."""
    if target.is_file() and filecmp.cmp(source, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def take_dependencies(target, source):
    """Copies what cargo built of other people's crates, so that it is not built again, as far as that goes."""
    for part in ("deps", ".fingerprint", "build"):
        for path in sorted((source / "debug" / part).glob("*")):
            copy = target / "debug" / part / path.name
            # A name without a dot in `deps` is a program.
            is_ours = re.match("(lib)?onewrite", path.name) or part == "deps" and not path.suffix
            if is_ours or copy.exists():
                continue
            half = target / "debug" / "half"
            half.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            copy.parent.mkdir(exist_ok=True)
            try:
                # With its times: cargo compares them.
                shutil.copytree(path, half / "of") if path.is_dir() else shutil.copy2(path, half / "of")
                (half / "of").rename(copy)
            except OSError as error:
                return print(f"dependencies are built anew: {error}", file=sys.stderr)


def built(tree, target, crates):
    """Builds the program and the tests. Returns the path of the program and those of the tests, by crate."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never"}
    command = ["cargo", "build", "--quiet", "--profile", "test", "--package", "onewrite"]
    if subprocess.run(command, cwd=tree, env=environment).returncode:
        fail("the mutated tree does not build")
    if not crates:
        return target / "debug" / "onewrite", []
    command = ["cargo", "test", "--quiet", "--no-run", "--message-format=json"]
    command += [word for crate in crates for word in ("--package", crate)]
    run = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)
    if run.returncode:
        fail("the tests of the mutated tree do not build")
    tests = []
    for line in run.stdout.splitlines():
        message = json.loads(line)
        if message.get("profile", {}).get("test") and message.get("executable"):
            folder = pathlib.Path(message["manifest_path"]).parent
            tests.append((f"{folder.name} {message['target']['name']}", folder, message["executable"]))
    return target / "debug" / "onewrite", tests


class Test:
    """One test: how to run it, how long it took, and the mutants (and marks) whose code it reaches."""

    def __init__(self, program, folder, executable, name):
        self.program, self.folder, self.name = program, folder, name
        self.command = [executable, "--test-threads", "1"] + (["--exact", name] if name else [])
        self.seconds, self.reaches, self.failed = 0.0, set(), ""

    def key(self):
        """What it is in notes of earlier traces: an executable that was not built again is the same."""
        return f"{self.command[0]} {os.stat(self.command[0]).st_mtime_ns} {self.name}"

    def traced(self, timeout, marks=False):
        """Runs it with no mutant on."""
        with tempfile.TemporaryDirectory(prefix="onewrite-mutant-", ignore_cleanup_errors=True) as scratch:
            reached = pathlib.Path(scratch) / "reached"
            environment = {**os.environ, "ONEWRITE_MUTANT": "trace", "ONEWRITE_MUTANT_REACHED": str(reached)}
            environment |= {"ONEWRITE_MARKS_NOTED": "1"} if marks else {}
            begin = time.monotonic()
            code, said = run(self.command, {**environment, "TMPDIR": scratch}, timeout, self.folder)
            self.seconds = time.monotonic() - begin
            self.failed = "" if code == 0 else said[-2000:] or "a hang"
            if reached.is_file():
                self.reaches = {int(number) for number in reached.read_text().split()}
        return self


def each_test(programs):
    """The tests of all test programs; a program that cannot list its tests counts as one.

    Those of the source's form (`tidy`) are left out: in the copy, mutants are long lines.
    """
    tests = []
    for program, folder, executable in [each for each in programs if not each[0].endswith(" tidy")]:
        code, said = run([executable, "--list", "--format", "terse"], os.environ, 60, folder)
        names = re.findall(r"^(.*): test$", said, re.M) if code == 0 else [""]
        ignored = run([executable, "--list", "--ignored", "--format", "terse"], os.environ, 60, folder)[1]
        names = set(names) - set(re.findall(r"^(.*): test$", ignored, re.M))
        tests += [Test(program, folder, executable, name) for name in sorted(names)]
    return tests


class KilledFromOutside(Exception):
    """A run that somebody else ended: it says nothing about the mutant."""


class Notes:
    """What runs said, kept in the room: the same programs and options say the same, so no run is made twice."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        self.said = json.loads(path.read_text()) if path.is_file() else {}

    def of(self, key, answer):
        """What `answer` says; what it said before under this key."""
        key = json.dumps(key)
        if key not in self.said:
            said = answer()
            with self.lock:
                self.said[key] = said
                self.path.write_text(json.dumps(self.said))
        return self.said[key]


def digest(path):
    """Names the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


class Judge:
    """Runs mutants, one at a time in each of its threads."""

    def __init__(self, program, tests, options):
        self.program, self.tests, self.options = program, tests, options
        # How many states of a workload kept all promises with no mutant on.
        self.sound = {}
        self.notes, self.program_digest = Notes(options.room / "notes.json"), digest(program)
        self.tests_digest = " ".join(sorted(map(digest, {test.command[0] for test in tests})))

    def trace(self):
        """Runs each test alone, with no mutant on. One that fails twice is named and left out.

        What a test reached is kept in the room, for runs with the same executables. One that fails because marks are
        noted runs again without.
        """
        marks = self.options.marks is not None
        notes = self.options.room / ("trace-marks.json" if marks else "trace.json")
        known = json.loads(notes.read_text()) if notes.is_file() else {}
        for test in [test for test in self.tests if test.key() in known]:
            test.seconds, reaches = known[test.key()]
            test.reaches = set(reaches)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            new = [test for test in self.tests if test.key() not in known]
            list(pool.map(lambda test: test.traced(self.options.timeout, marks), new))
        failed = [test for test in self.tests if test.failed and test.traced(self.options.timeout).failed]
        for test in failed:
            print(f"left out: without a mutant, {test.program} {test.name} fails: {test.failed}", file=sys.stderr)
        self.tests = sorted((test for test in self.tests if test not in failed), key=lambda test: test.seconds)
        known |= {test.key(): [test.seconds, sorted(test.reaches)] for test in self.tests}
        notes.write_text(json.dumps(known))
        print(f"{len(self.tests)} tests, {sum(test.seconds for test in self.tests):.0f} s", file=sys.stderr, flush=True)

    def assert_sound(self, mutants):
        """With no mutant on, every workload must keep all promises."""
        lines = sorted({line for mutant in mutants for line in mutant.explore if self.options.explorer})
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(lambda line: self.expect_sound(line, 300), lines))

    def expect_sound(self, line, states):
        """With no mutant on, so many states of a workload must keep all promises."""
        if self.sound.get(line, 0) >= states:
            return
        environment = {**os.environ, "ONEWRITE_MUTANT": "0"}
        words = [*shlex.split(line), "--states", str(states), "--seed", str(self.options.seed), "--jobs", "1"]
        command = [self.program, "--quiet", "crash", *words, "--minimise", "0"]
        key = [self.program_digest, "sound", *words]
        code, said = self.notes.of(key, lambda: run(command, environment, self.options.timeout))
        if code != 0:
            fail(f"without a mutant, `onewrite crash {line} --states {states}` ends with {code}: {said}")
        self.sound[line] = states

    def judged(self, mutant):
        """What caught the mutant, as (by, what), and whether its code ran at all."""
        options, is_reached = self.options, False
        if options.explorer:
            for line in mutant.explore:
                key = [self.program_digest, mutant.name, line, options.states, options.seed]
                try:
                    what, ran, states = self.notes.of(key, lambda: self.watched(mutant, self.explored, line))
                except KilledFromOutside:
                    print(f"{mutant.name}: `{line}` was killed from outside (no memory?), and says nothing", flush=True)
                    continue
                is_reached = is_reached or ran
                if what:
                    if states:
                        self.expect_sound(line, states)
                    return ("explorer", what), is_reached
        if not self.tests:
            return ("nothing", ""), is_reached
        key = [self.tests_digest, mutant.name, options.patience]
        (by, what), ran, _ = self.notes.of(key, lambda: self.watched(mutant, self.tested))
        return (by, what), is_reached or ran

    def watched(self, mutant, look, *of):
        """What `look` finds with the mutant on, whether its code ran, and what else `look` tells."""
        with tempfile.TemporaryDirectory(prefix="onewrite-mutant-", ignore_cleanup_errors=True) as scratch:
            reached = pathlib.Path(scratch) / "reached"
            environment = {**os.environ, "ONEWRITE_MUTANT_REACHED": str(reached), "TMPDIR": scratch}
            environment["ONEWRITE_MUTANT"] = str(mutant.number)
            found, told = look(mutant, environment, *of)
            return found, reached.exists(), told

    def explored(self, mutant, environment, line):
        """What a workload shows of a mutant, and after how many states; nothing if it holds."""
        words = [*shlex.split(line), "--states", str(self.options.states), "--seed", str(self.options.seed)]
        report = pathlib.Path(environment["TMPDIR"]) / "report.json"
        command = [self.program, "--quiet", "crash", *words, "--jobs", "1", "--minimise", "0", "--json", report]
        code, _ = run(command, environment, self.options.timeout)
        if code == 1 and report.is_file():
            found = json.loads(report.read_text())
            promise = found["violations"][0]["promise"]
            return f"`{line}`, {promise} within {found['states']} states", found["states"]
        if code == -signal.SIGKILL:
            raise KilledFromOutside
        if code not in (0, 1):
            return f"`{line}`, {'a hang' if code is None else f'exit code {code}'}", 0
        return "", 0

    def tested(self, mutant, environment):
        """What the tests show of a mutant."""
        return self.by_tests(mutant, environment) or ("nothing", ""), 0

    def by_tests(self, mutant, environment):
        """The fastest test that fails, of those that reach the mutant's code."""
        spent = 0.0
        for test in [test for test in self.tests if mutant.number in test.reaches]:
            if spent > self.options.patience:
                return "nothing", f"{spent:.0f} s of tests; longer ones were not tried"
            patience = 30 + 20 * test.seconds
            code, _ = run(test.command, environment, patience, test.folder)
            if code is None:
                # Once more: whoever stops this script for a while stops the test, not its clock.
                code, _ = run(test.command, environment, patience, test.folder)
            if code != 0:
                return "tests", f"{test.program}: {test.name}" + (" (a hang)" if code is None else "")
            spent += test.seconds
        return None


def run(command, environment, timeout, folder=None):
    """Exit code, `None` after `timeout` seconds, and what the command said."""
    try:
        done = subprocess.run(
            [str(word) for word in command], env=environment, cwd=folder, timeout=timeout, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, errors="replace",
        )
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        return None, (error.stdout or b"").decode(errors="replace") if isinstance(error.stdout, bytes) else ""


def shortened(what):
    """What caught a mutant, with its script cut short."""
    return re.sub(r"(script:[^']{80})[^']+", r"\1…", what).replace("|", "\\|")


def soon_caught(mutants, page):
    """Those that a page says the explorer caught soon, by the first of their workloads."""
    said = dict(re.findall(r"^\| (\S+) \| .* \| (`.*) \|$", page.read_text(), re.M))

    def is_soon(mutant):
        within = re.search(r"within (\d+) states$", said.get(mutant.name, ""))
        first = said.get(mutant.name, "").startswith(f"`{shortened(mutant.explore[0])}`")
        return within and int(within[1]) <= SOON and first

    return [mutant for mutant in mutants if is_soon(mutant)]


def searched(options):
    """What looked for the mutants."""
    explorer = f"seed {options.seed}, at most {options.states} states each"
    tests = f"at most {options.patience} s of tests each" if options.tests else "no tests"
    return f"{explorer if options.explorer else 'no explorer'}, {tests}"


def told(rows, options, seconds):
    """The result as Markdown."""
    count = lambda by: sum(caught[0] == by for _, caught, _ in rows)
    killed = count("explorer") + count("tests")
    lines = [
        f"{len(rows)} mutants, {searched(options)}, {seconds:.0f} s: "
        f"**{killed} killed** ({100 * killed / max(len(rows), 1):.0f}%), {count('explorer')} by the explorer, "
        f"{count('tests')} by tests; {count('nothing')} survive.",
        "",
        "| table | mutants | explorer | tests | survive |",
        "|---|---|---|---|---|",
    ]
    for table in sorted({mutant.table for mutant, _, _ in rows}):
        of = [caught[0] for mutant, caught, _ in rows if mutant.table == table]
        lines.append(f"| {table} | {len(of)} | {of.count('explorer')} | {of.count('tests')} | {of.count('nothing')} |")
    lines += ["", "| mutant | breaks | caught by |", "|---|---|---|"]
    for mutant, (by, what), is_reached in rows:
        nothing = f"**nothing**{'; ' if what else ''}{what}" if is_reached else "**nothing**; never reached"
        caught_by = nothing if by == "nothing" else shortened(what)
        lines.append(f"| {mutant.name} | {mutant.breaks} | {caught_by} |")
    return "\n".join(lines) + "\n"


def written(path, text):
    """Puts the result into a file; what stands before `MARK` stays."""
    before, mark, _ = path.read_text().partition(MARK) if path.is_file() else ("", "", "")
    path.write_text(f"{before}{mark}\n\n{text}" if mark else text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="NAME", help="only these mutants or tables; * and ? stand for more")
    parser.add_argument("--check", action="store_true", help="only check the tables against the source")
    parser.add_argument("--sample", type=int, metavar="COUNT", help="only so many, drawn by --draw")
    parser.add_argument("--draw", type=int, default=1, metavar="SEED", help="seed of --sample (%(default)s)")
    parser.add_argument("--soon", type=pathlib.Path, metavar="PAGE",
        help=f"only those that this page says the explorer caught within {SOON} states")
    parser.add_argument("--states", type=int, default=20_000, help="crash states for each workload (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the explorer (%(default)s)")
    parser.add_argument("--no-tests", dest="tests", action="store_false", help="the explorer alone")
    parser.add_argument("--no-explorer", dest="explorer", action="store_false", help="the tests alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants side by side (%(default)s)")
    parser.add_argument("--timeout", type=int, default=900, help="seconds after which a run hangs (%(default)s)")
    parser.add_argument("--patience", type=int, default=600, help="seconds of tests for each mutant (%(default)s)")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT", help="exit with 1 if fewer are killed")
    parser.add_argument("--room", type=pathlib.Path, default=ROOT / "target" / "mutants", help="for copy and build")
    parser.add_argument("--dependencies", type=pathlib.Path, metavar="TARGET",
        help="take what was built of other people's crates from this target directory of cargo")
    parser.add_argument("--marks", type=pathlib.Path, help="write here which tests reach each mark, as JSON")
    parser.add_argument("--out", type=pathlib.Path, help="write the result here, too")
    return parser.parse_args()


def main():
    options, mutants = arguments(), tables()
    wrong = problems(mutants)
    if wrong:
        fail("the tables do not fit the source\n  " + "\n  ".join(wrong))
    if options.check:
        return print(f"{len(mutants)} mutants fit the source")
    def is_asked_for(mutant):
        names = (mutant.name, mutant.table)
        return not options.only or any(fnmatch.fnmatch(name, only) for name in names for only in options.only)

    chosen = [mutant for mutant in mutants if is_asked_for(mutant)]
    if options.soon and chosen:
        if not options.soon.is_file():
            fail(f"--soon: no page {options.soon}; docs/mutants.md is one")
        chosen = soon_caught(chosen, options.soon) or fail(f"--soon: {options.soon} tells of no mutant caught soon")
    if options.sample and options.sample < len(chosen):
        chosen = sorted(random.Random(options.draw).sample(chosen, options.sample), key=lambda mutant: mutant.number)
    if not chosen:
        fail("no such mutant; the tables are " + ", ".join(sorted({mutant.table for mutant in mutants})))
    room = options.room.resolve()
    mutated_tree(room / "tree", mutants, options.tests)
    if options.dependencies:
        take_dependencies(room / "target", options.dependencies)
    of_mutants = {mutant.file.split("/")[1] for mutant in mutants}
    # The lab's copying and reports are tested by what the program says.
    crates = sorted(of_mutants | {"onewrite-crash"} | ({"onewrite"} if "onewrite-lab" in of_mutants else set()))
    program, tests = built(room / "tree", room / "target", crates if options.tests else [])
    judge, begin, rows = Judge(program, each_test(tests), options), time.monotonic(), []
    judge.assert_sound(chosen)
    if options.tests:
        judge.trace()
    if options.marks:
        options.marks.write_text(json.dumps(tests_of_marks(judge.tests), indent=1))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for mutant, (caught, is_reached) in zip(chosen, pool.map(judge.judged, chosen)):
            rows.append((mutant, caught, is_reached))
            print(f"{len(rows)}/{len(chosen)} {mutant.name}: {caught[0]} {caught[1]}", file=sys.stderr, flush=True)
            text = told(rows, options, time.monotonic() - begin)
            if options.out:
                written(options.out, text)
    print(text)
    killed = sum(caught[0] != "nothing" for _, caught, _ in rows)
    return 100 * killed / len(rows) < options.least


if __name__ == "__main__":
    sys.exit(main())
