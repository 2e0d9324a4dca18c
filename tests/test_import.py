"""Importing the package is pure and light."""

from __future__ import annotations

import json
import subprocess
import sys

import pyro_copula as pc

SCRIPT = """
import json, random, sys, warnings
import numpy, pyro, scipy.sparse, scipy.spatial, scipy.special, torch
before = (torch.get_default_dtype(), torch.initial_seed(), torch.get_num_threads(),
          torch.distributions.Distribution._validate_args, list(warnings.filters),
          random.getstate(), str(numpy.random.get_state()))
import pyro_copula
after = (torch.get_default_dtype(), torch.initial_seed(), torch.get_num_threads(),
         torch.distributions.Distribution._validate_args, list(warnings.filters),
         random.getstate(), str(numpy.random.get_state()))
heavy = [m for m in ("numba", "llvmlite", "pymetis", "arviz", "matplotlib", "pandas", "networkx",
                          "torch_geometric", "pooch", "requests")
         if m in sys.modules]
print(json.dumps({"pure": before == after, "heavy": heavy}))
"""


def test_import_is_pure_and_light():
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(output) == {"pure": True, "heavy": []}


def test_every_public_name_exists_and_is_documented():
    for name in pc.__all__:
        assert getattr(pc, name) is not None
        if name != "__version__":
            assert getattr(pc, name).__doc__, name
