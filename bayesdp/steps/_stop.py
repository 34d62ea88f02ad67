"""Whether sampling was asked to stop: chains that have not begun then do not begin.

PyMC takes Ctrl-C in one of several chains that run one after the other for the end of that chain, and begins the next one,
for which a large table first has to be put on its fiber and scattered. `bayesdp.sample` asks here, and the step methods of
tables look here before a chain.
"""

from __future__ import annotations


class StopRequest:
    """A flag of this process. A chain in a process of its own has another one, which is never set."""

    def __init__(self) -> None:
        self.asked = False

    def obey(self) -> None:
        """Raise KeyboardInterrupt if sampling was asked to stop."""
        if self.asked:
            raise KeyboardInterrupt


stop_request = StopRequest()
