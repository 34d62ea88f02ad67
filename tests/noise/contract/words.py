"""Reasons: why something does not work, said in a sentence that names the law."""

from __future__ import annotations

from bayesdp.noise import NoiseLaw


def assert_reason(text: str, law: NoiseLaw) -> None:
    """A sentence of at least five words that names the law, by its name in files or by that of its class."""
    assert len(text.split()) >= 5, f"{law.name}: {text!r} is no reason"
    assert law.name in text or type(law).__name__ in text, f"{text!r} does not name the law {law.name}"
