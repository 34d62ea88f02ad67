"""Labels that somebody may have put into a file: a terminal obeys some, a spreadsheet computes some, some turn text around."""

import unicodedata

OBEYED = [
    "\x1b[2J\x1b[31mred",  # clears the screen
    "\x1b]52;c;cm0gLXJm\x07",  # writes to the clipboard
    "\x9b31mC1",
    "two\nlines",
    "carriage\rreturn",
    "form\x0cfeed\x0bvertical\x1cfile",
    "line\u2028paragraph\u2029next\x85end",
    "\u202eright to left\u202c",
    "\u2066isolate\u2069\u200e\u200f\u061c",
    "zero\u200bwidth\ufeffno\u2060break\u00ad",
    "tag\U000e0041\U000e007f",
    "filler\u3164\u115f",
    "back\x08space\x7f",
]
COMPUTED = ["=1+1", "+1", "-1", "@SUM(A1)", "'=1+1", "''", "\uff1d1", "=\x1b\\x1b", "a,b\"c'"]
FOREIGN = ["القاهرة", "ירושלים", "東京都\u3000港区", "e\u0301tude", "Île\u00a0de France", "<b>&amp;$x$", r"back\slash"]
"""These stay as they are, but for what HTML needs."""
LABELS = [*OBEYED, *COMPUTED, *FOREIGN]


def obeyed(text: str, allowed: str = "\n") -> set[str]:
    """Characters of control, direction and width, and others that cannot be seen, that are in a text as such."""
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {own for own in text if unicodedata.category(own) in hidden or own in "\u3164\u115f"} - set(allowed)
