"""Every example of the document runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXAMPLES = re.findall(
    r"^```python\n(.*?)^```",
    (Path(__file__).parents[3] / "docs/python.md").read_text(encoding="utf-8"),
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_an_example_of_the_document_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "pyarrow"):
        if f"import {package}" in example:
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/python.md", "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2
