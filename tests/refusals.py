"""Tests of what is refused: a call, and what the error says of it."""

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["refused"]


def refused(*cases: tuple[Any, ...], of: Callable[[Any], object] | None = None) -> Callable[..., None]:
    """A test, to be given a name in its module, that each call ends in an error whose text matches.

    Cases are a call without arguments, or the argument of the call `of`, a pattern of the text, and the error if it matters which.
    """
    every = (NotImplementedError, TypeError, ValueError)

    @pytest.mark.parametrize(
        ("case", "message", "error"), [(*own, every)[:3] for own in cases], ids=[own[1][:40] for own in cases]
    )
    def test(case: Any, message: str, error: Any) -> None:
        with pytest.raises(error, match=message):
            of(case) if of else case()

    return test
