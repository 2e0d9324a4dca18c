"""How many examples the properties are tried on, and that every run tries the same ones.

``PYRO_COPULA_EXAMPLES=500 pytest tests/properties`` searches further, with new examples each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: Of every property, in an ordinary run.
NUM_EXAMPLES = 25

_searched = os.environ.get("PYRO_COPULA_EXAMPLES")

# No deadline: the first example of a kind may compile a kernel. No database:
# a failure of one run is not tried first in the next, so that runs do not depend on each other.
settings.register_profile(
    "pyro_copula",
    deadline=None,
    database=None,
    derandomize=_searched is None,
    max_examples=NUM_EXAMPLES if _searched is None else int(_searched),
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("pyro_copula")
