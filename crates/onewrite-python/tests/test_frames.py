"""Programs that know fsspec work on an image: pandas and pyarrow."""

from __future__ import annotations

from pathlib import Path

import pytest

import onewrite

pandas = pytest.importorskip("pandas")


def frame() -> pandas.DataFrame:
    return pandas.DataFrame({"number": range(1000), "name": [f"n{number}" for number in range(1000)]})


def test_pandas_writes_and_reads_csv(image: Path) -> None:
    options = {"path": str(image), "data": "data+async"}
    frame().to_csv("onewrite:///data.csv", index=False, storage_options=options)
    assert pandas.read_csv("onewrite:///data.csv", storage_options=options).equals(frame())
    with onewrite.Fs(image) as fs:
        with fs.open("/data.csv") as file:
            assert pandas.read_csv(file).equals(frame())


def test_pandas_writes_and_reads_parquet(fs: onewrite.Fs) -> None:
    pytest.importorskip("pyarrow")
    frame().to_parquet("/data.parquet", filesystem=fs)
    assert pandas.read_parquet("/data.parquet", filesystem=fs).equals(frame())


def test_pyarrow_has_a_data_set_in_it(fs: onewrite.Fs) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.dataset
    import pyarrow.fs

    arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
    table = pyarrow.Table.from_pandas(frame().assign(part=[n % 3 for n in range(1000)]), preserve_index=False)
    pyarrow.dataset.write_dataset(table, "/set", filesystem=arrow, format="parquet", partitioning=["part"])
    read = pyarrow.dataset.dataset("/set", filesystem=arrow, format="parquet", partitioning=["part"]).to_table()
    assert read.num_rows == 1000 and len(fs.find("/set")) == 3
    arrow.move("/set", "/moved")
    arrow.copy_file("/moved/" + fs.find("/moved")[0].removeprefix("/moved/"), "/copy")
    assert arrow.get_file_info("/copy").size == fs.size("/copy") > 0
    arrow.delete_dir("/moved")
    assert not fs.exists("/moved")
    arrow.create_dir("/new/dir")
    assert arrow.get_file_info("/new/dir").type == pyarrow.fs.FileType.Directory
