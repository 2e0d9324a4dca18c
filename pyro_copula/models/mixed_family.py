"""Different families at different nodes of one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InvalidArgumentError
from ..marginals import Mixed
from ..scalars import Constrained
from .continuous_families import NormalFamily
from .family import MarginalFamily

Nodes = Tensor | Sequence[int] | Sequence[bool]


class MixedFamily(MarginalFamily):
    """Every node has one of several families; each has outputs and scalars of its own.

    Args:
        kind: Which nodes are of which family: a dictionary from names to nodes (positions or a
            boolean mask), or the name of every node's family in a sequence. Every node is in
            exactly one.
        families: What the names stand for, where a name is not one of ``FAMILIES`` itself: each a
            family as :class:`~pyro_copula.CopulaGNN` takes it.

    Normal nodes have a scale of their own: only a model that is normal throughout can take it
    from the precision. Scalars are called by the name and their own, such as
    ``negative_binomial_dispersion``. An exposure counts where the family has a use for it.

    Example:
        >>> family = MixedFamily({"normal": [0, 1], "negative_binomial": [2]})
        >>> family.out_channels, sorted(family.scalars)
        (2, ['negative_binomial_dispersion', 'normal_scale'])
        >>> family.prepare(torch.tensor([0.5, -1.0, 7.0]))
        >>> family(torch.zeros(3, 2))
        Mixed(normal: 2 nodes of Normal, negative_binomial: 1 node of NegativeBinomial)
    """

    name = "mixed"
    index: Tensor

    def __init__(
        self,
        kind: Mapping[str, Nodes] | Sequence[str],
        families: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        from .families import make_family  # which lists this class

        self.labels, index = _read_kind(kind)
        self.register_buffer("index", index, persistent=False)
        given = dict(families or {})
        unknown = set(given) - set(self.labels)
        if unknown:
            raise InvalidArgumentError(
                "families",
                f"for names in `kind`: {self.labels}",
                f"{sorted(unknown)}",
                "Give those names some nodes, or drop them.",
            )
        self.parts = nn.ModuleDict(
            {label: make_family(given.get(label, label)) for label in self.labels}
        )
        for part in self._parts():
            if isinstance(part, NormalFamily):
                part.untie()
        self.out_channels = sum(part.out_channels for part in self._parts())
        self.uses_offset = any(part.uses_offset for part in self._parts())

    def _parts(self) -> list[Any]:
        return list(self.parts.values())

    def nodes(self, label: str) -> Tensor:
        """Which nodes are of a family, boolean of shape ``(num_nodes,)``."""
        return self.index == self.labels.index(label)

    @property
    def scalars(self) -> dict[str, Constrained]:
        """The global parameters of every part, each behind the name of its part."""
        return {
            f"{label}_{name}": scalar
            for label, part in zip(self.labels, self._parts())
            for name, scalar in part.scalars.items()
        }

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        laws = {}
        first = 0
        for label, part in zip(self.labels, self._parts()):
            last = first + part.out_channels
            own = {
                name: scalars[f"{label}_{name}"]
                for name in part.scalars
                if f"{label}_{name}" in scalars
            }
            laws[label] = part(outputs[..., first:last], offset, **own)
            first = last
        return Mixed(laws, self.index)

    def prepare(self, y: Tensor, offset: Tensor | None = None, known: Tensor | None = None) -> None:
        if len(y) != len(self.index):
            raise InvalidArgumentError(
                "kind",
                f"for {len(y)} nodes, as many as the data have",
                f"{len(self.index)} nodes",
                "Put every node into one family, those without a value included.",
            )
        known = y if known is None else known
        for label, part in zip(self.labels, self._parts()):
            mine = self.nodes(label)
            if not bool((mine & ~torch.isnan(y)).any()):
                raise InvalidArgumentError(
                    "y",
                    f"observed at some of the {int(mine.sum())} nodes of family {label!r}",
                    "none",
                    "Without any value its parameters cannot be learned: drop that family.",
                )
            part.prepare(y[mine], None if offset is None else offset[mine], known[mine])

    def outcome_scale(self, y: Tensor, exposure: Tensor | None = None) -> Tensor:
        """Each family's own scale, relative to where it starts, so that kinds can be averaged."""
        result = torch.zeros_like(y)
        for label, part in zip(self.labels, self._parts()):
            scaled = (part.outcome_scale(y, exposure) - part.center) / part.spread
            result = torch.where(self.nodes(label), scaled, result)
        return result

    def specification(self) -> Any:
        parts = {label: part.specification() for label, part in zip(self.labels, self._parts())}
        if "<own>" in parts.values():
            return "<own>"
        kind = [self.labels[k] for k in self.index.tolist()]
        return {"family": self.name, "kind": kind, "families": parts}

    def __repr__(self) -> str:
        return f"MixedFamily({', '.join(self._in_words(label) for label in self.labels)})"

    def _in_words(self, label: str) -> str:
        """A family by its label, what the label stands for unless that is its name, its nodes."""
        part, count = self.parts[label], int(self.nodes(label).sum())
        name, options = getattr(part, "name", "") or type(part).__name__, part.extra_repr()
        shown = f"{name}({options})" if options else name
        of = "" if shown == label else f" of {shown}"
        return f"{label}: {count} {'node' if count == 1 else 'nodes'}{of}"


def _read_kind(kind: Mapping[str, Nodes] | Sequence[str]) -> tuple[list[str], Tensor]:
    """The names, and the position of its own among them for every node."""
    if not isinstance(kind, Mapping):
        names = list(kind)
        labels = list(dict.fromkeys(names))
        if not labels or not all(isinstance(label, str) for label in labels):
            raise InvalidArgumentError(
                "kind",
                "a dictionary from names to nodes, or a name for every node",
                f"{type(kind).__name__} of length {len(names)}",
                'Pass {"normal": mask, "negative_binomial": ~mask}.',
            )
        return labels, torch.tensor([labels.index(name) for name in names])
    if not kind:
        raise InvalidArgumentError(
            "kind", "one family at least", "none", 'Pass {"normal": mask, "poisson": ~mask}.'
        )
    positions = {label: _positions(label, nodes) for label, nodes in kind.items()}
    lengths = [len(v) for v in (torch.as_tensor(n) for n in kind.values()) if v.dtype == torch.bool]
    num_nodes = max(lengths + [int(p.max()) + 1 for p in positions.values() if len(p)], default=0)
    index = torch.full((num_nodes,), -1)
    labels = list(kind)
    for k, (label, chosen) in enumerate(positions.items()):
        taken = chosen[index[chosen] >= 0]
        if len(taken):
            other = labels[int(index[taken[0]])]
            _not_one(int(taken[0]), f"both {other!r} and {label!r}")
        index[chosen] = k
    if bool((index < 0).any()):
        _not_one(int((index < 0).nonzero()[0]), "none")
    return labels, index


def _positions(label: str, nodes: Nodes) -> Tensor:
    nodes = torch.as_tensor(nodes)
    if nodes.dim() == 1 and nodes.dtype == torch.bool:
        return nodes.nonzero().squeeze(-1)
    whole = nodes.numel() == 0 or not (nodes.is_floating_point() or nodes.is_complex())
    if nodes.dim() != 1 or not whole or bool((nodes < 0).any()):
        raise InvalidArgumentError(
            f"kind[{label!r}]",
            "positions of nodes, or a boolean of shape (num_nodes,)",
            f"{nodes.dtype} of shape {tuple(nodes.shape)}",
            "Pass a mask such as is_count, or a list such as [0, 3, 4].",
        )
    return nodes.long().unique()


def _not_one(node: int, found: str) -> None:
    raise InvalidArgumentError(
        "kind",
        "such that every node has exactly one family",
        f"{found} at node {node}",
        "Use a mask for one family and its complement for the other.",
    )
