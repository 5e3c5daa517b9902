"""Kinds of modes: what the code that has a mark can tell of the mode that it runs in.

A device knows no mode. The code of ext4, of pages and drafts knows what goes into the log (the scope); the journal also
how a commit becomes durable and how blocks come home. So a mark has to be seen in each kind of modes in which its code
differs, and `marks-unseen.toml` says where it cannot be, and why.
"""

import pathlib
import re
import tomllib

UNSEEN = pathlib.Path(__file__).with_name("marks-unseen.toml")
F2FS = "F2FS"
METADATA, ORDERED, FULL = "metadata", "ordered", "full"


def scope_of(mode):
    """What goes into the log."""
    if mode in (F2FS, "writeback"):
        return F2FS if mode == F2FS else METADATA
    return ORDERED if re.match(r"ordered|soj|zp(?!-data)", mode) else FULL


def journal_of(mode):
    """How a commit becomes durable, or how blocks come home if not by copies; and whether content is logged."""
    if mode == F2FS:
        return None
    how = "plain"
    for pattern, name in [("zp", "padding"), ("sdj|soj", "SHARE"), (".*cmp|ldj", "frames"), (".*async", "checksum")]:
        how = name if re.match(pattern, mode) and how == "plain" else how
    return f"{how}, {'content' if scope_of(mode) == FULL else 'metadata'}"


# What the code in each part can tell of a mode. `None`: such a mode does not run this code.
KIND_OF = {"journal": journal_of, "recovery": journal_of}
KIND_OF |= {part: lambda mode: None if mode == F2FS else scope_of(mode) for part in ("ext4", "shares")}
KIND_OF |= {part: scope_of for part in ("pages", "drafts")}
KIND_OF |= {part: lambda mode: mode if mode == F2FS else None for part in ("f2fs", "stage")}


def mode_of(arguments):
    """The mode of a run; F2FS counts as one."""
    mode = re.search(r"--mode (\S+)", arguments)
    return F2FS if "--fs f2fs" in arguments else mode[1] if mode else "ordered"


def kind_of(part, mode):
    """The kind of a mode in one part of the code."""
    return KIND_OF.get(part, lambda _: "any mode")(mode)


def unseen():
    """Why marks are seen by no run, and why they cannot be in some kinds of modes."""
    known = tomllib.loads(UNSEEN.read_text())
    return known["why"], known.get("cannot", [])


def why_not(mark, part, kind, cannot):
    """Why a mark cannot be in a kind of modes; `None` if it can."""
    for rule in cannot:
        is_meant = any(re.fullmatch(one, mark) for one in rule["marks"])
        if is_meant and re.fullmatch(rule.get("parts", ".*"), part) and re.fullmatch(rule["kinds"], kind):
            return rule["why"]
    return None


def runs_in(place, kind):
    """Whether modes of this kind run the code at `place`: each file system has its own, and some is of both."""
    is_f2fs = kind == F2FS
    return kind is not None and not ("/ext4/" in place and is_f2fs or "/f2fs/" in place and not is_f2fs)


def by_kind(table, reports, places):
    """For each mark that was seen: its part, and in how many states of each kind of modes it was seen."""
    kinds = {}
    for name, row in table.items():
        part = row["room"]
        of = dict.fromkeys(kind_of(part, mode_of(arguments)) for arguments in reports)
        of_modes = {kind: 0 for kind in of if runs_in(places.get(name, ""), kind)}
        for arguments, count in row["by"].items():
            kind = kind_of(part, mode_of(arguments))
            of_modes[kind] = of_modes.get(kind, 0) + count
        kinds[name] = (part, of_modes)
    return kinds


def told_by_kind(table, reports, places):
    """The part of docs/marks.md about kinds of modes; `places` has the file of each mark."""
    _, cannot = unseen()
    kinds = by_kind({name: row for name, row in table.items() if row["by"]}, reports, places)
    pairs = [(name, part, kind, count) for name, (part, of) in kinds.items() for kind, count in of.items()]
    seen = [pair for pair in pairs if pair[3]]
    possible = [pair for pair in pairs if pair[3] or not why_not(*pair[:3], cannot)]
    wrong = [f"{name} ({kind})" for name, part, kind, _ in seen if why_not(name, part, kind, cannot)]
    if wrong:
        raise SystemExit(f"marks: {UNSEEN.name} says that these cannot be, and they were seen: {'; '.join(wrong)}")
    yield f"**{len(seen)} of {len(possible)} pairs of a mark and a kind of modes in which it can be were seen.**\n"
    yield "| part | kind of modes | seen | can be | not seen |\n|---|---|---|---|---|"
    for part, kind in dict.fromkeys((part, kind) for _, part, kind, _ in pairs):
        of = [(name, count) for name, other, at, count in possible if (other, at) == (part, kind)]
        missing = [name for name, count in of if not count]
        yield f"| {part} | {kind} | {len(of) - len(missing)} | {len(of)} | {'; '.join(missing) or '–'} |"
    yield "\nWhere a mark cannot be, and why:\n"
    yield "| marks | kinds | why |\n|---|---|---|"
    for rule in cannot:
        said = lambda words: ", ".join(f"`{word}`" for word in words).replace("|", "\\|")
        part = f" in {rule['parts']}" if "parts" in rule else ""
        yield f"| {said(rule['marks'])}{part} | {said([rule['kinds']])} | {rule['why']} |"
