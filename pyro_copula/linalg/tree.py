"""The kernels of the symbolic analysis: elimination tree, column counts, supernodes, structure.

All of them work on the graph's adjacency in compressed rows and on ``order``, the nodes in
elimination order (``rank`` is its inverse). After :func:`postorder` the columns of a subtree are
consecutive, which the later kernels rely on.

References:
    Liu, "The role of elimination trees in sparse factorization", SIMAX 11 (1990): the tree.
    Gilbert, Ng and Peyton, "An efficient algorithm to compute row and column counts for sparse
    Cholesky factorization", SIMAX 15 (1994): the counts, in nearly linear time.
    Ashcraft and Grimes, "The influence of relaxed supernode partitions on the multifrontal
    method", TOMS 15 (1989): merging.
"""

from __future__ import annotations

import numpy as np
from numba import njit

Arrays = tuple[np.ndarray, ...]
FrontCost = tuple[float, float, float]

#: Nanoseconds of one front: a constant, memory traffic and arithmetic (measured, see ``cost``).
FRONT_COST = (300.0, 1.5, 0.3)


@njit(cache=True, nogil=True)
def adjacency(rows: np.ndarray, cols: np.ndarray, num_nodes: int) -> Arrays:
    """Compressed rows of the undirected graph: pointers, neighbours and the edge of each."""
    pointer = np.zeros(num_nodes + 1, np.int64)
    for e in range(rows.size):
        pointer[rows[e] + 1] += 1
        pointer[cols[e] + 1] += 1
    for i in range(num_nodes):
        pointer[i + 1] += pointer[i]
    fill = pointer[:-1].copy()
    neighbour = np.empty(2 * rows.size, np.int32)
    edge = np.empty(2 * rows.size, np.int32)
    for e in range(rows.size):
        i, j = rows[e], cols[e]
        neighbour[fill[i]] = j
        edge[fill[i]] = e
        fill[i] += 1
        neighbour[fill[j]] = i
        edge[fill[j]] = e
        fill[j] += 1
    return pointer, neighbour, edge


@njit(cache=True, nogil=True)
def elimination_tree(
    pointer: np.ndarray, neighbour: np.ndarray, order: np.ndarray, rank: np.ndarray
) -> np.ndarray:
    """The parent of every column, -1 at a root: the first column that its elimination fills."""
    parent = np.full(order.size, -1, np.int64)
    ancestor = np.full(order.size, -1, np.int64)
    for j in range(order.size):
        for p in range(pointer[order[j]], pointer[order[j] + 1]):
            i = np.int64(rank[neighbour[p]])
            while i < j and i != -1:
                following = ancestor[i]
                ancestor[i] = j
                if following == -1:
                    parent[i] = j
                i = following
    return parent


@njit(cache=True, nogil=True)
def postorder(parent: np.ndarray, priority: np.ndarray) -> np.ndarray:
    """The nodes of a forest with children before parents and subtrees consecutive.

    Among siblings, the one that comes earlier in ``priority``, a permutation, comes first.
    """
    n = parent.size
    head = np.full(n + 1, -1, np.int64)
    following = np.full(n, -1, np.int64)
    for q in range(n - 1, -1, -1):  # the first is pushed last, to the head of its list
        i = priority[q]
        above = parent[i] if parent[i] >= 0 else n
        following[i] = head[above]
        head[above] = i
    result = np.empty(n, np.int64)
    stack = np.empty(n + 1, np.int64)
    stack[0] = n
    top, count = 1, 0
    while top:
        node = stack[top - 1]
        child = head[node]
        if child != -1:
            head[node] = following[child]
            stack[top] = child
            top += 1
        else:
            top -= 1
            if node != n:
                result[count] = node
                count += 1
    return result


@njit(cache=True, nogil=True)
def column_counts(
    pointer: np.ndarray,
    neighbour: np.ndarray,
    order: np.ndarray,
    rank: np.ndarray,
    parent: np.ndarray,
) -> np.ndarray:
    """The non-zeros of every column of the factor, its diagonal included; postordered columns."""
    n = order.size
    first = np.arange(n)  # the first descendant
    delta = np.zeros(n, np.int64)
    for j in range(n):
        if first[j] == j:
            delta[j] = 1
        if parent[j] != -1:
            first[parent[j]] = min(first[parent[j]], first[j])
    latest = np.full(n, -1, np.int64)  # the largest first descendant seen in each row subtree
    leaf = np.full(n, -1, np.int64)  # the previous leaf of each row subtree
    ancestor = np.arange(n)
    for j in range(n):
        if parent[j] != -1:
            delta[parent[j]] -= 1
        for p in range(pointer[order[j]], pointer[order[j] + 1]):
            i = rank[neighbour[p]]
            if i <= j or first[j] <= latest[i]:
                continue
            latest[i] = first[j]
            delta[j] += 1
            if leaf[i] != -1:
                root = leaf[i]
                while ancestor[root] != root:
                    root = ancestor[root]
                at = leaf[i]
                while at != root:
                    at, ancestor[at] = ancestor[at], root
                delta[root] -= 1
            leaf[i] = j
        if parent[j] != -1:
            ancestor[j] = parent[j]
    for j in range(n):
        if parent[j] != -1:
            delta[parent[j]] += delta[j]
    return delta


@njit(cache=True, nogil=True)
def cost(columns: int, below: int, front_cost: FrontCost) -> float:
    """The predicted time of one front with so many columns and rows below them."""
    square = 1.0 * columns * columns
    memory = columns * (columns + below) + below * below
    work = square * columns / 6 + square * below + 0.5 * columns * below * below
    return front_cost[0] + front_cost[1] * memory + front_cost[2] * work


@njit(cache=True, nogil=True)
def supernodes(parent: np.ndarray, count: np.ndarray, front_cost: FrontCost) -> Arrays:
    """Groups columns with nested structure, then merges any child that is cheaper in its parent.

    Returns:
        The supernode of every column, and per supernode its parent, columns and rows below.
    """
    n = parent.size
    group = np.empty(n, np.int64)
    total = 0
    for j in range(n):
        if j == 0 or parent[j - 1] != j or count[j - 1] != count[j] + 1:
            total += 1
        group[j] = total - 1
    above = np.full(total, -1, np.int64)
    columns = np.zeros(total, np.int64)
    below = np.zeros(total, np.int64)
    for j in range(n):
        s = group[j]
        columns[s] += 1
        below[s] = count[j] - 1
        above[s] = group[parent[j]] if parent[j] != -1 else -1
    # Children come before parents. A parent never moves before its own turn, so `above` is right.
    merged = np.arange(total)
    for s in range(total):
        p = above[s]
        if p == -1:
            continue
        apart = cost(columns[s], below[s], front_cost) + cost(columns[p], below[p], front_cost)
        if cost(columns[s] + columns[p], below[p], front_cost) < apart:
            merged[s] = p
            columns[p] += columns[s]
    number = np.full(total, -1, np.int64)
    kept = 0
    for s in range(total):
        if merged[s] == s:
            number[s] = kept
            kept += 1
    for s in range(total - 1, -1, -1):
        number[s] = number[merged[s]]
    parents = np.full(kept, -1, np.int64)
    sizes = np.empty(kept, np.int64)
    rows_below = np.empty(kept, np.int64)
    for s in range(total):
        if merged[s] == s:
            k = number[s]
            parents[k] = number[above[s]] if above[s] != -1 else -1
            sizes[k] = columns[s]
            rows_below[k] = below[s]
    for j in range(n):
        group[j] = number[group[j]]
    return group, parents, sizes, rows_below


@njit(cache=True, nogil=True)
def stack_peak(parent: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The update blocks alive at once below and at each supernode, in doubles (sizes only)."""
    alive = np.zeros(parent.size)  # the blocks of the children seen so far
    peak = np.zeros(parent.size)
    for s in range(parent.size):
        own = 1.0 * below[s] * below[s]
        peak[s] = max(peak[s], alive[s] + own)
        p = parent[s]
        if p != -1:
            peak[p] = max(peak[p], alive[p] + peak[s])
            alive[p] += own
    return peak


@njit(cache=True, nogil=True)
def stack_offsets(parent: np.ndarray, below: np.ndarray) -> tuple[np.ndarray, int]:
    """Static places of the update blocks on two facing stacks, for even and odd depth.

    The blocks of a front's children are then always on top of one stack while its own goes on
    the other, so that no block moves and none overlaps another that is alive.
    """
    n = parent.size
    odd = np.zeros(n, np.bool_)
    for s in range(n - 1, -1, -1):
        odd[s] = parent[s] != -1 and not odd[parent[s]]
    first_child = np.full(n, -1, np.int64)
    offset = np.zeros(n, np.int64)
    top = np.zeros(2, np.int64)
    size = 0
    for s in range(n):
        side, other = int(odd[s]), 1 - int(odd[s])
        offset[s] = top[side]
        top[side] += below[s] * below[s]
        size = max(size, top[0] + top[1])
        if first_child[s] != -1:
            top[other] = offset[first_child[s]]
        if parent[s] == -1:
            top[side] = offset[s]
        elif first_child[parent[s]] == -1:
            first_child[parent[s]] = s
    for s in range(n):
        if odd[s]:
            offset[s] = size - offset[s] - below[s] * below[s]
    return offset, size


@njit(cache=True, nogil=True)
def structure(
    pointer: np.ndarray,
    neighbour: np.ndarray,
    order: np.ndarray,
    rank: np.ndarray,
    start: np.ndarray,
    parent: np.ndarray,
    below: np.ndarray,
) -> Arrays:
    """The rows below every supernode, and their places in the front of its parent.

    Returns:
        Pointers into the two arrays, the rows in increasing order, and the places.
    """
    total = parent.size
    row_pointer = np.zeros(total + 1, np.int64)
    for s in range(total):
        row_pointer[s + 1] = row_pointer[s] + below[s]
    rows = np.empty(row_pointer[total], np.uint32)
    place = np.empty(row_pointer[total], np.uint32)
    seen = np.full(order.size, -1, np.int64)
    local = np.empty(order.size, np.uint32)
    head = np.full(total, -1, np.int64)
    following = np.full(total, -1, np.int64)
    for s in range(total):
        end = start[s + 1]
        count = row_pointer[s]
        for j in range(start[s], end):
            for p in range(pointer[order[j]], pointer[order[j] + 1]):
                i = rank[neighbour[p]]
                if i >= end and seen[i] != s:
                    seen[i] = s
                    rows[count] = i
                    count += 1
        child = head[s]
        while child != -1:
            for p in range(row_pointer[child], row_pointer[child + 1]):
                i = rows[p]
                if i >= end and seen[i] != s:
                    seen[i] = s
                    rows[count] = i
                    count += 1
            child = following[child]
        own = rows[row_pointer[s] : count]
        own.sort()
        columns = end - start[s]
        for k in range(own.size):
            local[own[k]] = columns + k
        child = head[s]
        while child != -1:
            for p in range(row_pointer[child], row_pointer[child + 1]):
                i = rows[p]
                place[p] = i - start[s] if i < end else local[i]
            child = following[child]
        if parent[s] != -1:
            following[s] = head[parent[s]]
            head[parent[s]] = s
    return row_pointer, rows, place


@njit(cache=True, nogil=True)
def entries(
    pointer: np.ndarray,
    neighbour: np.ndarray,
    edge: np.ndarray,
    order: np.ndarray,
    rank: np.ndarray,
    start: np.ndarray,
    row_pointer: np.ndarray,
    rows: np.ndarray,
) -> Arrays:
    """Where the values of K go: per supernode, places in its panel and which value goes there.

    Values are numbered with the diagonal first, in node order, and the edges after it.
    """
    total = start.size - 1
    n = order.size
    entry_pointer = np.zeros(total + 1, np.int64)
    where = np.empty(n + edge.size // 2, np.int64)
    which = np.empty(n + edge.size // 2, np.int32)
    local = np.empty(n, np.int64)
    count = 0
    for s in range(total):
        columns = start[s + 1] - start[s]
        height = columns + row_pointer[s + 1] - row_pointer[s]
        for j in range(start[s], start[s + 1]):
            local[j] = j - start[s]
        for p in range(row_pointer[s], row_pointer[s + 1]):
            local[rows[p]] = columns + p - row_pointer[s]
        for j in range(start[s], start[s + 1]):
            base = (j - start[s]) * height
            where[count] = base + local[j]
            which[count] = order[j]
            count += 1
            for p in range(pointer[order[j]], pointer[order[j] + 1]):
                i = rank[neighbour[p]]
                if i > j:
                    where[count] = base + local[i]
                    which[count] = n + edge[p]
                    count += 1
        entry_pointer[s + 1] = count
    return entry_pointer, where, which
