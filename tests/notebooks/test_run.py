from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import nbformat
import pytest

from notebooks import run


@pytest.fixture
def write(tmp_path):
    def write(name, *sources):
        path = tmp_path / f"{name}.ipynb"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        for position, cell in enumerate(notebook.cells):
            cell.id = f"cell-{position}"
        nbformat.write(notebook, path)
        return path

    return write


def test_cells_run_in_order_and_outputs_are_stored_on_demand_but_of_one_that_fails(write, monkeypatch, capsys):
    monkeypatch.setenv("BAYESDP_QUICK", "1")
    monkeypatch.setenv("PYTENSOR_FLAGS", "floatX=float64")
    good = write("good", "import os\nx = 41", "print(os.environ['BAYESDP_QUICK'], os.environ['PYTENSOR_FLAGS'])\nx + 1")
    bad = write("bad", "1 / 0")
    plain, before = good.read_bytes(), bad.read_bytes()
    assert run.main([str(good)]) == 0
    assert good.read_bytes() == plain
    capsys.readouterr()
    assert run.main([str(good), str(bad), "--jobs", "2", "--store"]) == 1
    out, err = capsys.readouterr()
    assert "good.ipynb: ok" in out
    assert "bad.ipynb: failed" in err
    assert "ZeroDivisionError" in err
    assert bad.read_bytes() == before
    told = run.printed(nbformat.read(good, as_version=4))
    assert told == ["1 cxx=,traceback__limit=0,floatX=float64\n", "42"]
    with pytest.raises(SystemExit):
        run.main([str(good), "--jobs", "0"])
    assert "--jobs must be at least 1, got 0" in capsys.readouterr().err


def test_two_runs_that_differ_are_refused_and_nothing_is_stored_unasked(write, capsys):
    path = write("lesson", "import uuid\nuuid.uuid4()")
    before = path.read_bytes()
    assert run.main([str(path), "--twice"]) == 1
    assert "two runs printed different text" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_kernel_that_dies_before_it_begins_is_started_once_more(write, monkeypatch):
    dies = Mock(side_effect=RuntimeError("Kernel died before replying to kernel_info"))
    monkeypatch.setattr(run.NotebookClient, "execute", dies)
    with pytest.raises(RuntimeError, match="Kernel died before replying"):
        run.execute(write("lesson", "1"))
    assert dies.call_count == 2


def test_the_longest_begin_and_some_are_not_compiled_in_quick_runs(tmp_path, write, monkeypatch, capsys):
    """Flags that the caller gives go before those of quick runs."""
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    assert run.main([]) == 1
    assert "no notebooks" in capsys.readouterr().err
    for name in ("02-a", "07-b", "08-c", "09-d", "10-e"):
        write(name, "1")
    monkeypatch.setenv("BAYESDP_QUICK", "1")
    monkeypatch.setenv("PYTENSOR_FLAGS", "floatX=float64")
    monkeypatch.setattr(run, "ProcessPoolExecutor", ThreadPoolExecutor)
    flags = []
    monkeypatch.setattr(run.NotebookClient, "execute", lambda self, env: flags.append(env["PYTENSOR_FLAGS"]))
    assert run.main([]) == 0
    order = [line[:2] for line in capsys.readouterr().out.splitlines()]
    assert order == ["10", "08", "09", "07", "02"]
    quick, plain = (f"cxx=,traceback__limit=0,{mode}floatX=float64" for mode in ("mode=FAST_COMPILE,", ""))
    assert dict(zip(order, flags, strict=True)) == {"02": quick, "07": quick, "08": plain, "09": quick, "10": quick}
