"""Noise laws that a test module defines: registered while its tests run, and no longer."""

from collections.abc import Iterator
from typing import Any

import pytest

from bayesdp.noise import base as registry

__all__ = ["only_here"]


def only_here(*laws: type[Any]) -> Any:
    """A fixture, to be bound to a name, that registers laws for the tests of its module alone: others look at all registered laws."""
    own = {law.name: law for law in laws}
    for name in own:
        registry._REGISTRY.pop(name)

    @pytest.fixture(scope="module", autouse=True)
    def registered() -> Iterator[None]:
        registry._REGISTRY.update(own)
        yield
        for name in own:
            registry._REGISTRY.pop(name)

    return registered
