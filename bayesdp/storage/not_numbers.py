"""What to do about a text that stands where a number should: a remedy that works when it is followed to the letter."""

from __future__ import annotations

import re

HOW_TO_LEAVE_OUT = (
    "leave the field empty and state that the cell was not published: --unmeasured blank (unmeasured= in Python)"
)
"""For noisy values; exact values have no such cells."""

_THOUSANDS = re.compile(r"([+-]?\d{1,3})((?:[,' \u2019\u00a0\u202f]\d{3})+)(\.\d+)?", re.ASCII)
_LIMIT = re.compile(r"(<=?|>=?|\u2264|\u2265)\s*\d+|\d+\s*(-|\u2013|to)\s*\d+", re.ASCII)
_PERCENT = re.compile(r"[+-]?[\d.]+\s*%", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)


def remedy(text: str) -> str:
    """A remedy for a text that is no number.

    Examples
    --------
    >>> remedy("1,215")
    'write it without separators of thousands, 1215'
    """
    thousands = _THOUSANDS.fullmatch(text)
    if thousands:
        whole = thousands[1] + re.sub(r"\D", "", thousands[2]) + (thousands[3] or "")
        return f"write it without separators of thousands, {whole}"
    if _PERCENT.fullmatch(text):
        return (
            "a percentage is no count and its noise is not that of a count: put the published counts into this column, or "
            "choose the column that holds them (--value NAME) and leave this one out (--ignore NAME)"
        )
    if _LIMIT.fullmatch(text):
        return (
            f"a limit is no noisy number: {HOW_TO_LEAVE_OUT}; that is right only if the choice of what to hide did not depend on "
            "the hidden number (a limit that is known exactly is an Exact part with sign='<=' or '>=' in Python)"
        )
    if _DECIMAL_COMMA.fullmatch(text):
        return f"write it with a decimal point, {text.replace(',', '.')}"
    return f"if no noisy number was published there, {HOW_TO_LEAVE_OUT}"


def split_thousands(fields: tuple[str, ...]) -> str | None:
    """Two neighbouring fields that look like one number with a separator of thousands, put together without it.

    Examples
    --------
    >>> split_thousands(("Alpha", "Low", "1", "215")), split_thousands(("Alpha", "Low", "14"))
    ('1215', None)
    """
    for i, field in enumerate(fields):
        if re.fullmatch(r"[+-]?\d{1,3}", field, re.ASCII) and i + 1 < len(fields):
            rest = []
            for following in fields[i + 1 :]:
                if not re.fullmatch(r"\d{3}", following, re.ASCII):
                    break
                rest.append(following)
            if rest:
                return field + "".join(rest)
    return None
