"""What docs/FILES.md says of the caches of compiled code, which can run code: who is warned of folders that anybody can write to."""

import numba
import pytensor
import pytest

import bayesdp
from bayesdp.cli.files import warn_of_open_caches


@pytest.mark.parametrize("which", ["numba", "pytensor", "bayesdp", "none", "absent"])
def test_open_folders_are_named(which, tmp_path, monkeypatch, capsys):
    folders = {name: tmp_path / name for name in ("numba", "pytensor", "bayesdp")}
    for name, folder in folders.items():
        folder.mkdir()
        folder.chmod(0o777 if name == which else 0o775)
    if which == "absent":  # a cache that is not there yet is no concern
        folders["numba"].rmdir()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folders["numba"]))
    monkeypatch.setattr(bayesdp, "__file__", str(folders["bayesdp"] / "__init__.py"))
    monkeypatch.setattr(type(pytensor.config), "compiledir", folders["pytensor"], raising=False)
    warn_of_open_caches("fit")
    told = capsys.readouterr().err.splitlines()
    assert len(told) == (which in folders)
    if told:
        assert f"anybody on this machine can write to {folders[which]} (" in told[0]
