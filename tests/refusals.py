"""Tests of what is refused: a call, and what the error says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["refused"]

ERRORS = (NotImplementedError, TypeError, ValueError)


def refused(
    *cases: tuple[Any, ...], of: Callable[[Any], object] | None = None, error: Any = ERRORS
) -> Callable[..., None]:
    """A test, to be given a name in its module, that each call ends in an error whose text matches.

    Cases are a call without arguments, or the argument of the call `of`, the type of the error if it is not `error`, and a
    pattern of the text.
    """

    @pytest.mark.parametrize("case", cases, ids=[case[-1][:40] for case in cases])
    def test(case: Any) -> None:
        call, *kind, message = case
        with pytest.raises(kind[0] if kind else error, match=message):
            of(call) if of else call()

    return test
