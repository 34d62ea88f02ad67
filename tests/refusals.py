"""Tests of what is refused: a call, and what the error says of it."""

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["refused"]


def refused(*cases: tuple[Any, str], of: Callable[[Any], object] | None = None) -> Callable[..., None]:
    """A test, to be given a name in its module, that calls without arguments, or `of` each case, end in an error that matches."""

    @pytest.mark.parametrize(("case", "message"), cases, ids=[message[:40] for _, message in cases])
    def test(case: Any, message: str) -> None:
        with pytest.raises((NotImplementedError, TypeError, ValueError), match=message):
            of(case) if of else case()

    return test
