"""scipy's functions of one real number inside numba kernels.

They are reached by symbol name, like the routines of ``linalg.blas``, so that numba's cached
machine code stays valid in the next process.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding
import scipy.special.cython_special
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _function(name: str, symbol: str) -> Any:
    """An intrinsic that calls a function of scipy from a double to a double."""
    capsule = scipy.special.cython_special.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    llvmlite.binding.add_symbol(symbol, address)

    @intrinsic
    def call(typing_context: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            # Cython's functions of doubles take one more argument, which says not to dispatch.
            shape = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), ir.IntType(32)])
            function = cgutils.get_or_insert_function(builder.module, shape, symbol)
            return builder.call(function, [args[0], ir.IntType(32)(0)])

        return types.float64(types.float64), codegen

    return call


ndtri = _function("ndtri", "pyro_copula_ndtri")
ndtri_exp = _function("ndtri_exp", "pyro_copula_ndtri_exp")
log_ndtr = _function("__pyx_fuse_1log_ndtr", "pyro_copula_log_ndtr")
