"""scipy's BLAS and LAPACK inside numba kernels.

The routines are reached by symbol name, registered with LLVM when this module is imported, so
that numba's cached machine code stays valid in the next process, where the addresses differ.
Each takes its arguments as one tuple, in BLAS's order and with matrices given by address.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding
import numpy as np
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_KINDS = {"c": ir.IntType(8), "n": ir.IntType(32), "f": ir.DoubleType(), "p": ir.DoubleType()}

LEFT, RIGHT = np.uint8(ord("L")), np.uint8(ord("R"))
LOWER = np.uint8(ord("L"))
PLAIN, TRANSPOSED = np.uint8(ord("N")), np.uint8(ord("T"))


def _address(name: str) -> int:
    """Where scipy has a routine."""
    module = scipy.linalg.cython_blas
    if name not in module.__pyx_capi__:
        module = scipy.linalg.cython_lapack
    capsule = module.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


def _routine(name: str, arguments: str) -> Any:
    """An intrinsic that calls a routine; it returns the last argument if that is ``info``.

    Args:
        name: The routine.
        arguments: One letter for each: c(har), n (integer), f(loat), p(ointer), i(nfo).
    """
    symbol = f"pyro_copula_{name}"
    llvmlite.binding.add_symbol(symbol, _address(name))
    kinds = [_KINDS[kind] for kind in arguments.replace("i", "n")]

    @intrinsic
    def call(typing_context: Any, values: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointers = []
            for letter, kind, value in zip(
                arguments, kinds, cgutils.unpack_tuple(builder, args[0]), strict=True
            ):
                if letter == "p":
                    pointers.append(builder.inttoptr(value, kind.as_pointer()))
                    continue
                # BLAS takes everything by reference and its integers are 32 bits wide.
                slot = cgutils.alloca_once(builder, kind)
                builder.store(builder.trunc(value, kind) if letter in "ni" else value, slot)
                pointers.append(slot)
            shape = ir.FunctionType(ir.VoidType(), [kind.as_pointer() for kind in kinds])
            function = cgutils.get_or_insert_function(builder.module, shape, symbol)
            builder.call(function, pointers)
            if arguments.endswith("i"):
                return builder.sext(builder.load(pointers[-1]), ir.IntType(64))
            return context.get_dummy_value()

        return (types.int64 if arguments.endswith("i") else types.none)(values), codegen

    return call


dgemm = _routine("dgemm", "ccnnnfpnpnfpn")
dsymm = _routine("dsymm", "ccnnfpnpnfpn")
dsyrk = _routine("dsyrk", "ccnnfpnfpn")
dsyr2k = _routine("dsyr2k", "ccnnfpnpnfpn")
dtrsm = _routine("dtrsm", "ccccnnfpnpn")
dpotrf = _routine("dpotrf", "cnpni")
dpotri = _routine("dpotri", "cnpni")


@intrinsic
def as_pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer to doubles."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(types.int64), codegen
