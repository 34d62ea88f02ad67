"""``noise.json`` from what libraries of differential privacy say of the noise that they added.

Each function takes published metadata, as plain data or text, and the queries that the published columns answer; none needs the
library. What is not mapped exactly is refused with the reason, and what a reader should know beside the law is in ``notes``.
"""

from __future__ import annotations

from bayesdp.datasets.noise_adapters.from_opendp import noise_json_of_opendp
from bayesdp.datasets.noise_adapters.from_pipelinedp import noise_json_of_pipelinedp
from bayesdp.datasets.noise_adapters.from_tumult import noise_json_of_tumult

__all__ = ["noise_json_of_opendp", "noise_json_of_pipelinedp", "noise_json_of_tumult"]
