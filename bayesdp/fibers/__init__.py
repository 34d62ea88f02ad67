"""Fibers: tables of whole numbers that share what is published exactly, and the chains that move on them."""

from bayesdp.fibers.chain import Chain
from bayesdp.fibers.fiber import ExactAnswers, Fiber, enumerate_fiber, nearest_table
from bayesdp.fibers.target import Target
from bayesdp.fibers.windows import LogMassWindows, NoiseTerm

__all__ = [
    "Chain", "ExactAnswers", "Fiber", "LogMassWindows", "NoiseTerm", "Target", "enumerate_fiber", "nearest_table",
]  # fmt: skip
