"""A release that is in its file is a success, whatever becomes of what is printed about it; a result that is only printed is not."""

import errno
import io
import os
import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from bayesdp.cli.errors import announce, run_safely, say, show
from bayesdp.release import Release
from tests.cli.conftest import IMPORT, RELEASE


def full(code):
    """Standard output on a disk that is full, or a pipe that nobody reads."""
    own = io.StringIO()
    own.flush = Mock(side_effect=OSError(code, os.strerror(code)))
    return own


def ascii_only():
    return io.TextIOWrapper(io.BytesIO(), "ascii")


def test_what_is_written_is_no_failure(run, monkeypatch):
    Path("table.csv").write_text(Path("table.csv").read_text().replace("Alpha", "Älpha"))
    for command, output, told in (
        (RELEASE, full(errno.ENOSPC), "No space left on device"),
        (RELEASE, full(errno.EPIPE), ""),
        (RELEASE, None, "is closed"),
        (RELEASE, ascii_only(), "its encoding, ascii, has no"),
        (IMPORT[:-1], full(errno.ENOSPC), "No space left on device"),
    ):
        Path("out.nc").unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", output)
            result = run(*command, "-o", "out.nc")
        assert result.status == 0, result.err
        assert isinstance(Release.from_netcdf("out.nc"), Release)
        assert told in result.err
        assert ("written to out.nc; no more could be said of it" in result.err) == bool(told)
        assert result.err.count("\n") <= 2


def test_what_is_only_printed_is_a_failure_and_so_is_another_broken_pipe_but_not_standard_error(monkeypatch, capsys):
    for output, told in (
        (full(errno.ENOSPC), "No space left on device"),
        (None, "closed"),
        (ascii_only(), r"has no '\\xc4'"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", output)
            with pytest.raises(OSError, match=f"standard output.*{told}"):
                show("Älpha")
            patch.setattr(sys, "stdout", full(errno.EPIPE))
            show("Älpha")  # `| head` is none
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", full(errno.ENOSPC))
        announce("a.nc", "written to a.nc")
        say("nobody hears")
        patch.setattr(sys, "stderr", None)
        say("nor into standard output")
    assert capsys.readouterr().out == "written to a.nc\n"
    broken = Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert run_safely(broken, type("Arguments", (), {"command": "fit"})) == 2
    assert capsys.readouterr().err == "bayesdp fit: error: [Errno 32] Broken pipe\n"


def test_ctrl_c_while_a_release_is_written_comes_too_late(run, monkeypatch, foreground):
    """To run the command again would make a second release, with other noise."""
    link = os.link
    monkeypatch.setattr(os, "link", lambda source, target: signal.raise_signal(signal.SIGINT) or link(source, target))
    result = run(*RELEASE, "-o", "out.nc")
    assert result.status == 0
    assert "interrupted, but out.nc had been written" in result.err
    assert Path("out.nc").exists()
