"""The README's code runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

README = Path(__file__).resolve().parents[2] / "README.md"


def test_python_blocks_run_in_order_and_the_exact_totals_hold(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    totals = names["bdp"].Margins(names["noisy"], ["county"]).apply(names["posterior"]["posterior"]["x"])
    assert np.all(totals.values == [18, 24, 13])
    assert "Privacy guarantee" in capsys.readouterr().out
