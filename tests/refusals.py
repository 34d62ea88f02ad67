"""Tests of what is refused: a call, and what the error says of it."""

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["refused"]

ERRORS = (NotImplementedError, TypeError, ValueError)


def refused(
    *cases: tuple[Any, ...], of: Callable[[Any], object] | None = None, error: Any = ERRORS
) -> Callable[..., None]:
    """A test, to be given a name in its module, that each call ends in an error whose text matches.

    Cases are a call without arguments, or the argument of the call `of`, a pattern of the text, and the type of the error if it is
    not `error`, before or after the pattern.
    """
    patterns = [next(own for own in case[1:] if isinstance(own, str)) for case in cases]
    kinds = [next((own for own in case[1:] if not isinstance(own, str)), error) for case in cases]

    @pytest.mark.parametrize(
        ("call", "kind", "pattern"),
        [(case[0], kind, pattern) for case, kind, pattern in zip(cases, kinds, patterns, strict=True)],
        ids=[pattern[:40] for pattern in patterns],
    )
    def test(call: Any, kind: Any, pattern: str) -> None:
        with pytest.raises(kind, match=pattern):
            of(call) if of else call()

    return test
