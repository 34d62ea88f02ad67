"""What the tests of this folder share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def unwritable(tmp_path):
    """A folder that nobody can write to, not even root, for whom modes of files mean nothing."""
    if os.geteuid() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        return closed
    kernel = Path("/sys/kernel")
    if not kernel.is_dir():
        pytest.skip("root can write anywhere on this system")
    return kernel
