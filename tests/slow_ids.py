"""Tests that take the mark `slow` from a list: single parameters of a test cannot have it in a decorator that all share."""

from pathlib import Path

__all__ = ["SLOW", "is_slow"]

_LINES = (Path(__file__).parent / "slow_ids.txt").read_text(encoding="utf-8").splitlines()
SLOW: tuple[str, ...] = tuple(line for line in _LINES if line and not line.startswith("#"))
"""Beginnings of the names of tests, from the root of the repository on."""


def is_slow(name: str) -> bool:
    """Whether the test of this name is one of `SLOW`."""
    return name.startswith(SLOW)
