"""A release that is in its file is a success, whatever becomes of what is printed about it; a result that is only printed is not."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

import pytest

from bayesdp.cli.errors import announce, run_safely, say, show
from bayesdp.release import Release

RELEASE = ("release", "table.csv", "--invariant", "margins:county", "--mechanism", "lattice-laplace", "--epsilon", "1")
IMPORT = ("import", "noisy.csv", "--exact", "margins.csv", "--law", "discrete-gaussian sigma=5")


class Full(io.StringIO):
    """Standard output on a disk that is full, or a pipe that nobody reads."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code

    def flush(self) -> None:
        raise OSError(self.code, os.strerror(self.code))


def outputs() -> list:
    ascii_only = io.TextIOWrapper(io.BytesIO(), "ascii")
    return [Full(errno.ENOSPC), Full(errno.EPIPE), None, ascii_only]


@pytest.mark.parametrize("which", range(4), ids=["full", "pipe", "closed", "ascii"])
@pytest.mark.parametrize("command", [RELEASE, IMPORT], ids=["release", "import"])
def test_what_is_written_is_no_failure(run, monkeypatch, command, which):
    Path("table.csv").write_text(Path("table.csv").read_text().replace("Alpha", "Älpha"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", outputs()[which])
        result = run(*command, "-o", "out.nc")
    assert result.status == 0, result.err
    assert isinstance(Release.from_netcdf("out.nc"), Release)
    reasons = [
        "No space left on device",
        None,
        "is closed",
        "its encoding, ascii, has no" if command is RELEASE else None,
    ]
    if reasons[which]:
        assert "written to out.nc; no more could be said of it" in result.err
        assert reasons[which] in result.err
    assert result.err.count("\n") <= 2


def test_what_is_only_printed_is_a_failure(monkeypatch, capsys):
    for own, told in zip(outputs(), ("No space left on device", None, "closed", "has no '\\xc4'"), strict=True):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", own)
            if told is None:  # `| head`
                show("Älpha")
            else:
                with pytest.raises(OSError, match="standard output") as caught:
                    show("Älpha")
                assert told in str(caught.value)


def test_standard_error_that_is_full_or_closed_changes_nothing(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", Full(errno.ENOSPC))
    announce("a.nc", "written to a.nc")
    say("nobody hears")
    monkeypatch.setattr(sys, "stderr", None)
    say("nor into standard output")
    assert capsys.readouterr().out == "written to a.nc\n"


def test_a_broken_pipe_that_is_not_standard_output_is_a_failure(capsys):
    """Such as that to a worker that died."""

    def broken(args):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    args = type("Arguments", (), {"command": "fit"})
    assert run_safely(broken, args) == 2
    assert capsys.readouterr().err == "bayesdp fit: error: [Errno 32] Broken pipe\n"


@pytest.mark.parametrize("late", [True, False])
def test_ctrl_c_that_comes_too_late(run, monkeypatch, late):
    link = os.link

    def interrupted(source, target):
        if late:
            link(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", interrupted)
    result = run(*RELEASE, "-o", "out.nc")
    if late:
        assert result.status == 0
        assert "interrupted, but out.nc had been written" in result.err
    else:
        assert result.status == 130
        assert "nothing was written" in result.err
    assert Path("out.nc").exists() == late
