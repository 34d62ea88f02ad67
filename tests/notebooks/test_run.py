import nbformat
import pytest

from notebooks import run


@pytest.fixture
def write(tmp_path):
    """Write a notebook of the given code cells; return its path."""

    def write(*sources):
        path = tmp_path / "lesson.ipynb"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        for position, cell in enumerate(notebook.cells):
            cell.id = f"cell-{position}"
        nbformat.write(notebook, path)
        return path

    return write


def test_cells_run_in_order_with_the_environment_and_outputs_are_stored_on_demand(write, monkeypatch):
    monkeypatch.setenv("BAYESDP_QUICK", "1")
    path = write("import os\nx = 41", "print(os.environ['BAYESDP_QUICK'])\nx + 1")
    before = path.read_bytes()
    assert (run.main([str(path)]), path.read_bytes(), run.main([str(path), "--store"])) == (0, before, 0)
    assert run.printed(nbformat.read(path, as_version=4)) == ["1\n", "42"]


def test_several_at_a_time_and_one_that_fails_among_them(tmp_path, write, capsys):
    good, bad = tmp_path / "good.ipynb", tmp_path / "bad.ipynb"
    write("print('fine')").rename(good)
    write("1 / 0").rename(bad)
    before = bad.read_bytes()
    assert run.main([str(good), str(bad), "--jobs", "2", "--store"]) == 1
    out, err = capsys.readouterr()
    assert "good.ipynb: ok" in out
    assert "bad.ipynb: failed" in err
    assert "ZeroDivisionError" in err
    assert (bad.read_bytes(), run.printed(nbformat.read(good, as_version=4))) == (before, ["fine\n"])
    with pytest.raises(SystemExit):
        run.main([str(good), "--jobs", "0"])
    assert "--jobs must be at least 1, got 0" in capsys.readouterr().err


def test_a_kernel_that_dies_before_it_begins_is_started_once_more(write, monkeypatch):
    begun = []

    def dies(client, *args, **kwargs):
        begun.append(client)
        raise RuntimeError("Kernel died before replying to kernel_info")

    monkeypatch.setattr(run.NotebookClient, "execute", dies)
    with pytest.raises(RuntimeError, match="Kernel died before replying"):
        run.execute(write("1"))
    assert len(begun) == 2


def test_two_runs_that_differ_are_refused(write, capsys):
    path = write("import uuid\nuuid.uuid4()")
    assert run.main([str(path), "--twice"]) == 1
    assert "two runs printed different text" in capsys.readouterr().err


def test_a_folder_without_notebooks_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    assert run.main([]) == 1
    assert "no notebooks" in capsys.readouterr().err


def test_the_longest_begin_and_some_are_not_compiled_in_quick_runs(tmp_path, write, monkeypatch, capsys):
    """Flags that the caller gives go before those of quick runs."""
    path = write("import os\nos.environ.get('PYTENSOR_FLAGS', '')")
    for name in ("02-a", "07-b", "08-c", "09-d", "10-e"):
        (tmp_path / f"{name}.ipynb").write_bytes(path.read_bytes())
    path.unlink()
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setenv("BAYESDP_QUICK", "1")
    monkeypatch.setenv("PYTENSOR_FLAGS", "floatX=float64")
    assert run.main(["--store"]) == 0
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["10", "08", "09", "07", "02"]
    told = {own.name[:2]: run.printed(nbformat.read(own, as_version=4)) for own in tmp_path.glob("*.ipynb")}
    quick = ["'cxx=,traceback__limit=0,mode=FAST_COMPILE,floatX=float64'"]
    plain = ["'cxx=,traceback__limit=0,floatX=float64'"]
    assert told == {"02": quick, "07": quick, "08": plain, "09": quick, "10": quick}
