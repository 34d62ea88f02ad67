"""Tests and p-values do not load PyMC."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_significance_does_not_load_pymc() -> None:
    program = (
        "import sys, bayesdp\n"
        "bayesdp.significance.binomial_test\n"
        "print([name for name in ('pymc', 'pytensor', 'arviz') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=root, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"
