"""Tests of what is refused: a call, and what the error says of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

__all__ = ["refused"]


def refused(*cases: tuple[Callable[[], object], str]) -> Callable[..., None]:
    """A test, to be given a name in its module, that each call ends in an error whose text matches; in the order of the cases."""

    @pytest.mark.parametrize(("call", "message"), cases, ids=[message[:40] for _, message in cases])
    def test(call: Callable[[], object], message: str) -> None:
        with pytest.raises((NotImplementedError, TypeError, ValueError), match=message):
            call()

    return test
