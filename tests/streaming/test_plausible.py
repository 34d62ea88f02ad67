import errno
import sys
import threading

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies.structure import levels_of, tree_of
from bayesdp.streaming.journal import TableWriter, thinned
from tests.streaming.cases import FRAME

parquet = pytest.importorskip("pyarrow.parquet")
TREE = tree_of(FRAME, 1, levels_of(FRAME, 1, bdp.Margins(FRAME, ["county"]).parts))


def _writer(path, overwrite=False):
    return TableWriter(path, TREE, thinned(4, 2, 10), {"seed": "3"}, overwrite=overwrite)


def _tables(rng):
    return rng.poisson(0.7, size=(4, *FRAME.shape))


def _add_all(writer, tables):
    for i, (chain, draw) in enumerate([(0, 4), (0, 9), (1, 4), (1, 9)]):
        writer.add(chain, draw, np.ascontiguousarray(TREE.leaves_by_cells(tables[i].reshape(-1))))


def test_tables_are_read_back_with_labels_and_groups(tmp_path):
    tables = _tables(np.random.default_rng(1))
    writer = _writer(tmp_path / "tables.parquet")
    _add_all(writer, tables)
    assert list(tmp_path.glob("*.parquet")) == []  # nothing under its name before it is complete
    writer.finish()
    read = parquet.read_table(tmp_path / "tables.parquet")
    assert read.schema.metadata[b"bayesdp_seed"] == b"3"
    frame = read.to_pandas()
    assert list(frame.columns) == ["table", "chain", "draw", "age", "tract", "race", "county", "count"]
    assert (frame["count"] > 0).all()
    for i, table in enumerate(tables):
        own = frame[frame["table"] == i]
        back = np.zeros(FRAME.shape, dtype=np.int64)
        place = [
            [labels.index(label) for label in own[dim]] for dim, labels in zip(FRAME.dims, FRAME.labels, strict=True)
        ]
        back[tuple(place)] = own["count"]
        np.testing.assert_array_equal(back, table)
    assert dict(zip(frame["tract"], frame["county"], strict=True)) == {"t1": "A", "t2": "B", "t3": "A"}
    assert frame.groupby("table")[["chain", "draw"]].first().values.tolist() == [[0, 4], [0, 9], [1, 4], [1, 9]]
    assert [path.name for path in tmp_path.iterdir()] == ["tables.parquet"]


def test_numbers_stay_numbers(tmp_path):
    frame = bdp.Frame.of({"tract": [1, 2], "age": ["a", 5]})
    tree = tree_of(frame, 0, levels_of(frame, 0, []))
    writer = TableWriter(tmp_path / "t.parquet", tree, thinned(1, 1, 1), {}, overwrite=False)
    writer.add(0, 0, np.array([[0, 3], [1, 0]]))
    writer.finish()
    read = parquet.read_table(tmp_path / "t.parquet").to_pandas()
    assert read["tract"].tolist() == [1, 2]
    assert read["age"].tolist() == ["5", "a"]


def test_chains_write_at_the_same_time(tmp_path):
    tree = TREE
    writer = TableWriter(tmp_path / "t.parquet", tree, thinned(80, 4, 20), {}, overwrite=False)
    threads = [
        threading.Thread(target=lambda c=c: [writer.add(c, d, np.full((3, 4), 100 * c + d + 1)) for d in range(20)])
        for c in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.finish()
    read = parquet.read_table(tmp_path / "t.parquet").to_pandas()
    assert len(read) == 80 * 12
    assert (read["count"] == 100 * read["chain"] + read["draw"] + 1).all()
    assert (read["table"] == 20 * read["chain"] + read["draw"]).all()


def test_which_draws():
    for tables, chains, draws in ((100, 2, 1000), (7, 3, 5), (3, 4, 10), (10, 2, 5)):
        found = thinned(tables, chains, draws)
        assert sum(map(len, found)) == tables
        assert all(len(np.unique(own)) == len(own) and (0 <= own).all() and (own < draws).all() for own in found)
        assert all(own[-1] == draws - 1 and np.ptp(np.diff(own, prepend=-1)) <= 1 for own in found if len(own))


def test_a_file_is_not_replaced_unasked(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="exists already"):
        _writer(path)
    writer = _writer(path, overwrite=True)
    assert path.read_text() == "mine"
    _add_all(writer, _tables(np.random.default_rng(1)))
    writer.finish()
    assert parquet.read_table(path).num_rows > 0
    with pytest.raises(FileNotFoundError, match="create it first"):
        _writer(tmp_path / "none" / "t.parquet")
    with pytest.raises(IsADirectoryError):
        _writer(tmp_path, overwrite=True)


def test_a_full_disk_leaves_nothing_and_is_told_at_the_end(tmp_path, monkeypatch):
    writer = _writer(tmp_path / "t.parquet")

    def full(batch):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer._file, "write_batch", full)
    _add_all(writer, _tables(np.random.default_rng(1)))
    with pytest.raises(OSError, match=r"No space left on device; nothing was written.*t\.parquet"):
        writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_what_is_abandoned_leaves_nothing(tmp_path):
    writer = _writer(tmp_path / "t.parquet")
    _add_all(writer, _tables(np.random.default_rng(1)))
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesdp\[census\]', or leave out tables_path"):
        _writer(tmp_path / "t.parquet")
