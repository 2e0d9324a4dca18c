"""The same five small graphs, everywhere."""

from __future__ import annotations

from ..graph import Graph


def _grid(rows: int, columns: int) -> list[tuple[int, int]]:
    across = [
        (r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)
    ]
    down = [
        (r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)
    ]
    return across + down


#: A path, a star, a grid, two components, and a triangle with an isolated node.
SMALL_GRAPHS: dict[str, Graph] = {
    "path": Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=4),
    "star": Graph.from_edges([(0, 1), (0, 2), (0, 3), (0, 4)], num_nodes=5),
    "grid": Graph.from_edges(_grid(3, 3), num_nodes=9),
    "two_components": Graph.from_edges([(0, 1), (1, 2), (3, 4)], num_nodes=5),
    "isolated_node": Graph.from_edges([(0, 1), (1, 2), (0, 2)], num_nodes=4),
}
