"""The exact part of a release as an observed variable: the indicator of the fiber."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution, SymbolicRandomVariable
from pymc.logprob.abstract import ValuedRV, _logprob
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant

from bayesdp.distributions.answers import answers
from bayesdp.queries import Query

OFF_FIBER = -1e6
"""Log-density of a table off the fiber while the counts are free.

A constant: it tells the other variables of the model nothing, so it does not alter their conditional law. It is there so
that a sampler of those others may run before the step method of the counts has moved the start onto the fiber, which it
does at its first step, before anything is recorded. Where the counts are given, it is minus infinity.
"""


class UnmergedRV(SymbolicRandomVariable):
    """A variable without a generator among its inputs, of which PyTensor would merge two into one, which cannot have two values."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class ExactAnswersRV(UnmergedRV):
    """Random variable of `ExactAnswers`: the answers of a query, without noise.

    Parameters
    ----------
    query : Query
    sign : {"=", ">=", "<="}
    """

    inline_logprob = False
    _print_name = ("ExactAnswers", r"\operatorname{ExactAnswers}")

    def __init__(self, query: Query, sign: str, **kwargs: Any) -> None:
        self.query = query
        self.sign = sign
        self._ndim_supp = len(query.shape)
        super().__init__(**kwargs)

    @classmethod
    def make(cls, x: Any, *, query: Query, sign: str) -> Any:
        """Apply to a table."""
        inner = x.type()
        # float64: PyMC stores integer data as int32 and wraps what does not fit; these are exact below 2**53.
        return cls(query, sign, inputs=[inner], outputs=[pt.cast(answers(query, inner), "float64")])(x)


class ExactAnswers(Distribution):
    """Answers of a query that are published exactly, or published bounds of them; used by `observe`.

    Parameters
    ----------
    x : tensor variable
        The counts.
    query : Query
    sign : {"=", ">=", "<="}
    """

    rv_type = ExactAnswersRV
    rv_op = ExactAnswersRV.make

    @classmethod
    def dist(cls, x: Any, *, query: Query, sign: str, **_: Any) -> Any:
        """Make an unregistered variable."""
        return ExactAnswersRV.make(x, query=query, sign=sign)


@_logprob.register(ExactAnswersRV)
def _exact_logp(op: ExactAnswersRV, values: Any, x: Any, **_: Any) -> Any:
    [value] = values
    given = answers(op.query, x)
    compare = {"=": pt.eq, ">=": pt.ge, "<=": pt.le}[op.sign]
    variable = x.owner.inputs[1] if x.owner is not None and isinstance(x.owner.op, ValuedRV) else x
    free = variable.owner is None and not isinstance(variable, SharedVariable | Constant)
    return pt.switch(pt.all(compare(given, value)), 0.0, OFF_FIBER if free else -np.inf)
