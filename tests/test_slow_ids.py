"""The list of slow tests: each of its lines has a test, and others are not slow by it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.slow_ids import SLOW, is_slow

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", SLOW)
def test_each_line_has_a_test(name: str) -> None:
    path, _, test = name.partition("::")
    function, _, parameter = test.partition("[")
    source = (ROOT / path).read_text(encoding="utf-8")
    found = re.search(rf"^( *)def {re.escape(function)}\(", source, flags=re.MULTILINE)
    assert found, f"{path} has no {function}"
    assert not parameter or "parametrize" in source[: found.start()]


def test_lines_are_distinct() -> None:
    assert len(set(SLOW)) == len(SLOW)


def test_only_what_is_listed_is_slow() -> None:
    assert is_slow("tests/cli/test_fit.py::test_ctrl_c_in_the_middle_keeps_and_saves_what_was_drawn[2]")
    assert not is_slow("tests/cli/test_fit.py::test_ctrl_c_in_the_middle_keeps_and_saves_what_was_drawn[1]")
    assert not is_slow("docs/how-to/comparing-priors.md::comparing-priors.md")
