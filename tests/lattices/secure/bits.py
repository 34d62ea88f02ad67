"""Random bits that repeat, and that watch how they are asked for."""

from __future__ import annotations

import random


class Counted:
    """A source of random bits with a seed, which counts them and insists on integers."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)
        self.used = 0

    def __call__(self, count: int) -> int:
        assert type(count) is int
        self.used += count
        return self._source.getrandbits(count)
