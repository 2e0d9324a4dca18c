"""Damaged and crafted inputs, made from good ones by a seeded generator."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from typing import Any

import torch

#: What a value is replaced by: extremes, wrong types, formulas, commands.
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    10**400,
    1e308,
    -1e308,
    5e-324,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "=1+1",
    "\x00",
    "a" * 5_000,
    "../../etc/passwd",
    "__import__('os').system('true')",
    "\ud7ff\U0001f600",
    [],
    {},
    [[]],
    [None] * 40,
    {"family": "none"},
    {"": {"": {}}},
)

WORDS = (
    b"NaN",
    b"Infinity",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"null",
    b"true",
    b'"',
    b"\\u0000",
    b"\x00",
    b"\xff\xfe",
    b"\r\n",
    b"\n",
    b",",
    b";",
    b"\t",
    b"=1+1",
    b"{",
    b"}",
    b"[" * 50,
    b"[" * 5_000,
    b'{"a":' * 3_000,
    b"\xef\xbb\xbf",
    b"PK\x03\x04",
    b"\x80\x02",
    b"cos\nsystem\n",
    b"1" * 5_000,
)


def damage(content: bytes, rng: random.Random) -> bytes:
    """One to four accidents of bytes: flips, cuts, insertions, repetitions, splices."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        where = rng.randrange(len(data) + 1)
        length = min(len(data) - where, rng.choice((1, 2, 8, 64, 1_000)))
        match rng.randrange(9):
            case 0 if data:
                data[where % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[where % len(data)] = rng.randrange(256)
            case 2:
                del data[where:]
            case 3:
                del data[where : where + length]
            case 4:
                data[where:where] = rng.randbytes(length or 3)
            case 5:
                data[where:where] = data[where : where + length]
            case 6:
                data[where : where + length] = rng.choice(WORDS)
            case 7:
                other = rng.randrange(len(data) + 1)
                data[where : where + length] = data[other : other + length]
            case 8:
                data[where : where + length] = bytes(length)
    return bytes(data)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """The paths to everything inside nested dictionaries and lists."""
    found = []
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        found.append((*path, key))
        if isinstance(part, dict | list | tuple):
            found += places(part, (*path, key))
    return found


def change(value: Any, rng: random.Random, odd: Callable[[Any, random.Random], Any]) -> Any:
    """One to three changes in a nested value: replaced, dropped, moved or added parts."""
    value = as_lists(copy.deepcopy(value))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        known = places(value)
        if not known:
            return value
        *way, key = rng.choice(known)
        holder = value
        for step in way:
            holder = holder[step]
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(("", "key", "a" * 300, str(key) + " "))] = odd(None, rng)
            case 2:
                *other, last = rng.choice(known)
                source = value
                try:
                    for step in other:
                        source = source[step]
                    holder[key] = copy.deepcopy(source[last])
                except (KeyError, IndexError, TypeError):
                    holder[key] = odd(holder[key], rng)
            case 3:
                holder[key] = nested(rng.choice((3, 40, 200)))
            case _:
                holder[key] = odd(holder[key], rng)
    return value


def as_lists(value: Any) -> Any:
    """The same with lists in place of tuples, so that every part can be changed."""
    if isinstance(value, dict):
        return {key: as_lists(part) for key, part in value.items()}
    return [as_lists(part) for part in value] if isinstance(value, list | tuple) else value


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def odd_value(before: Any, rng: random.Random) -> Any:
    """Something else in place of a plain value; a number often stays one."""
    if isinstance(before, int | float) and abs(before) < 1e300 and rng.random() < 0.3:
        return rng.choice((-before, before + 1, before * 1e6, float(before), int(bool(before))))
    if isinstance(before, str) and rng.random() < 0.3:
        return before[: len(before) // 2] + rng.choice("=;\n\x00é ") + before[len(before) // 2 :]
    return copy.deepcopy(rng.choice(ODD))


def odd_tensor(before: Any, rng: random.Random) -> Any:
    """Something else in place of a tensor: of another shape, type or size, or not plain."""
    if not isinstance(before, torch.Tensor):
        return odd_value(before, rng)
    some = before.clone()
    match rng.randrange(12):
        case 0:
            return some.flatten()
        case 1:
            return some[:0] if some.dim() else some.expand(3)
        case 2:
            return some.unsqueeze(0)
        case 3:
            return (
                torch.full_like(some, rng.choice((math.nan, math.inf, -1e300, 1e300)))
                if (some.is_floating_point())
                else some - 10**15
            )
        case 4:
            return some.to(rng.choice((torch.int32, torch.complex64, torch.bool, torch.float16)))
        case 5:
            return torch.zeros(()).expand(10**12)  # a terabyte, if it is ever unfolded
        case 6:
            return torch.zeros(1).expand(2**20, 2**20)
        case 7:
            return some.float().to_sparse() if some.dim() else some
        case 8:
            return torch.empty(10**9, device="meta")
        case 9:
            return torch.cat([some, some]) if some.dim() else some
        case 10:
            return torch.nn.Parameter(some.double())
        case _:
            return odd_value(None, rng)


def crafted_json(content: bytes, rng: random.Random) -> bytes:
    """A line of JSON changed as a value, or damaged as text."""
    lines = content.split(b"\n")
    k = rng.randrange(len(lines))
    try:
        value = json.loads(lines[k])
    except ValueError:
        return damage(content, rng)
    lines[k] = json.dumps(change(value, rng, odd_value)).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)
