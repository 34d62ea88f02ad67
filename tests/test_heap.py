"""Freed memory goes back to the system."""

import ctypes
import subprocess
import sys

import pytest

from bayesdp._interrupts import give_back

pytestmark = pytest.mark.system

HOLES = """
import numpy as np
from bayesdp._interrupts import give_back

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

arrays = [np.ones(12_000) for _ in range(2_000)]  # 96 kB each, below what gets pages of its own
kept = arrays[::8]
del arrays
before = resident()
assert give_back()
print(before - resident())
"""


@pytest.mark.skipif(
    not (sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "malloc_trim")), reason="needs glibc"
)
def test_holes_in_the_heap_are_given_back():
    found = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 100e6  # of 168 MB


def test_elsewhere_nothing_is_done(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert give_back() is False
