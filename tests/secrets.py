"""Whether a confidential number shows in anything that an error leaves behind: its text, causes, context, notes, output."""

import re
import traceback

SECRET = "731941"
"""Digits that every confidential number of a test has, and nothing else."""

_SHOWN = re.compile(r"[ ,._'']?".join(SECRET))


def everything_said(error: BaseException) -> str:
    """All texts of an error and of those that it is chained to, as a handler, a log or a traceback may show them."""
    said = ["".join(traceback.format_exception(error))]
    seen: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        own = todo.pop()
        if own is None or own in seen:
            continue
        seen.append(own)
        said += [str(own), repr(own), repr(own.args), *getattr(own, "__notes__", ())]
        todo += [own.__cause__, own.__context__]
    return "\n".join(said)


def shows_secret(text: str) -> bool:
    """Whether the secret digits are in a text, with or without signs between them (7.31941e5, 731,941)."""
    return bool(_SHOWN.search(text))
