import sys

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies.structure import levels_of, tree_of
from bayesdp.storage.journal import write_arrays
from bayesdp.streaming.tables import check_tables, entries_of_table, table_name, thinned, write_tables
from tests.streaming.cases import FRAME

parquet = pytest.importorskip("pyarrow.parquet")
TREE = tree_of(FRAME, 1, levels_of(FRAME, 1, bdp.Margins(FRAME, ["county"]).parts))
PLACES = [(0, 4), (0, 9), (1, 4), (1, 9)]


def _drawn(folder, tables=None, tree=TREE, places=PLACES):
    """Files of tables as chains write them."""
    tables = np.random.default_rng(1).poisson(0.7, size=(4, *FRAME.shape)) if tables is None else tables
    folder.mkdir(exist_ok=True)
    for place, table in zip(places, tables, strict=True):
        write_arrays(folder / table_name(*place), entries_of_table(np.asarray(tree.leaves_by_cells(table.reshape(-1)))))
    return tables


def _write(path, folder, overwrite=False):
    write_tables(path, TREE, thinned(4, 2, 10), folder, {"seed": "3"}, overwrite=overwrite)


def test_tables_are_read_back_with_labels_and_groups(tmp_path):
    tables = _drawn(tmp_path / "drawn")
    _write(tmp_path / "tables.parquet", tmp_path / "drawn")
    read = parquet.read_table(tmp_path / "tables.parquet")
    assert read.schema.metadata[b"bayesdp_seed"] == b"3"
    frame = read.to_pandas()
    assert list(frame.columns) == ["table", "chain", "draw", *FRAME.dims, "county", "count"]
    assert (frame["count"] > 0).all()
    back = np.zeros_like(tables)
    place = [frame[dim].map(labels.index) for dim, labels in zip(FRAME.dims, map(list, FRAME.labels), strict=True)]
    back[frame["table"], *place] = frame["count"]
    np.testing.assert_array_equal(back, tables)
    assert dict(zip(frame["tract"], frame["county"], strict=True)) == {"t1": "A", "t2": "B", "t3": "A"}
    assert frame.groupby("table")[["chain", "draw"]].first().values.tolist() == [list(own) for own in PLACES]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drawn", "tables.parquet"]


def test_a_file_is_not_replaced_unasked_and_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_text("mine")
    assert check_tables(path, overwrite=True) == path
    for own, overwrite, error, message in (
        (path, False, FileExistsError, "exists already"),
        (tmp_path / "none" / "t.parquet", False, FileNotFoundError, "create it first"),
        (tmp_path, True, IsADirectoryError, None),
    ):
        with pytest.raises(error, match=message):
            check_tables(own, overwrite=overwrite)
    assert path.read_text() == "mine"
    _drawn(tmp_path / "drawn")
    _write(path, tmp_path / "drawn", overwrite=True)
    assert parquet.read_table(path).num_rows > 0
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesdp\[census\]', or leave out tables_path"):
        check_tables(path, overwrite=True)


def test_a_table_that_is_none_is_refused_which_draws_are_tables_and_numbers_stay_numbers(tmp_path):
    file = tmp_path / table_name(1, 4)
    for change in (-(10**6), 10**6):
        _drawn(tmp_path)
        with np.load(file) as arrays:
            changed = {**arrays, "place": arrays["place"] + change}
        np.savez(file, **changed)
        with pytest.raises(ValueError, match=r"table-1-4\.npz' is damaged"):
            _write(tmp_path / "t.parquet", tmp_path)
    file.unlink()
    with pytest.raises(OSError, match=r"1 of 4 tables could not be written to"):
        _write(tmp_path / "t.parquet", tmp_path)
    assert not list(tmp_path.glob("*.parquet"))
    for tables, chains, draws in ((100, 2, 1000), (7, 3, 5), (3, 4, 10), (10, 2, 5)):
        found = thinned(tables, chains, draws)
        assert sum(map(len, found)) == tables
        assert all(len(np.unique(own)) == len(own) and (0 <= own).all() and (own < draws).all() for own in found)
        assert all(own[-1] == draws - 1 and np.ptp(np.diff(own, prepend=-1)) <= 1 for own in found if len(own))
    frame = bdp.Frame.of({"tract": [1, 2], "age": ["a", 5]})
    tree = tree_of(frame, 0, levels_of(frame, 0, []))
    _drawn(tmp_path, [np.array([[0, 3], [1, 0]])], tree, [(0, 0)])
    write_tables(tmp_path / "t.parquet", tree, thinned(1, 1, 1), tmp_path, {}, overwrite=False)
    read = parquet.read_table(tmp_path / "t.parquet").to_pandas()
    assert read["tract"].tolist() == [1, 2]
    assert read["age"].tolist() == ["5", "a"]
