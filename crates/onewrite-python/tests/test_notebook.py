"""The notebook runs from its first cell to its last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[3] / "examples/python/compare.ipynb"

pytest.importorskip("pandas")


def test_the_cells_run_as_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "notebook"}
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "clear the outputs: they differ from version to version"
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert names["found"]["mode"].tolist() == ["ordered", "data", "data+async"]  # type: ignore[index]


@pytest.mark.filterwarnings("ignore")
def test_jupyter_runs_it(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}})
    client.execute()
    assert "data+async" in str(notebook.cells[1].outputs)
