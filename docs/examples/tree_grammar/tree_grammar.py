#!/usr/bin/env python3
"""Sequences of a random tree grammar, and the lowest loss that masked-language modeling of them can have.

    tree_grammar.py write FOLDER      # train.txt and eval.txt: a sequence of 256 ids on each line
    tree_grammar.py compare FOLDER    # the last evaluation of FOLDER/run beside the optimum

A tree has 8 levels. Its root is one of 8 symbols, with equal probability, and a symbol a has the children b and c with
probability M[a, b, c], the same at every node; the 256 leaves are the sequence. M is softmax(2 g) over the 64 pairs of
children, where g is a standard normal number for each (a, b, c).

The optimum knows M. It is the mean of -log p(leaf | all leaves that are not masked), which belief propagation computes
exactly on a tree: a message up from each subtree, then one down. Leaves are masked as the model sees them: each with
probability 0.15, replaced by [MASK] always. Needs numpy.
"""

import json
import pathlib
import sys

import numpy as np

SYMBOLS, LEVELS, SPREAD, MASKED = 8, 8, 2.0, 0.15


def grammar():
    """M: (symbols, symbols, symbols), which sums to 1 over the last two."""
    powers = np.exp(SPREAD * np.random.default_rng(3).standard_normal((SYMBOLS,) * 3))
    return powers / powers.sum((1, 2), keepdims=True)


def sequences(rules, count, random):
    """(count, 2^LEVELS) leaves."""
    nodes = random.integers(0, SYMBOLS, (count, 1))
    ends = rules.reshape(SYMBOLS, -1).cumsum(1)
    for _ in range(LEVELS):
        pair = (random.random(nodes.shape)[..., None] > ends[nodes][..., :-1]).sum(-1)
        nodes = np.stack([pair // SYMBOLS, pair % SYMBOLS], -1).reshape(count, -1)
    return nodes


def normalized(messages):
    return messages / messages.sum(-1, keepdims=True)


def optimum(rules, leaves, masked):
    """The mean of -log p over the masked leaves, given the others. `leaves`, `masked`: (n, 2^LEVELS)."""
    n = len(leaves)
    up = [np.where(masked[..., None], 1.0, np.eye(SYMBOLS)[leaves])]  # p(seen leaves of the subtree | its root), scaled
    for _ in range(LEVELS):
        left, right = up[-1].reshape(n, -1, 2, SYMBOLS).swapaxes(0, 2).swapaxes(1, 2)
        up.append(normalized(np.einsum("abc,npb,npc->npa", rules, left, right, optimize=True)))
    down = np.full((n, 1, SYMBOLS), 1 / SYMBOLS)  # p(root of the subtree | all leaves outside it)
    for messages in reversed(up[:-1]):
        left, right = messages.reshape(n, -1, 2, SYMBOLS).swapaxes(0, 2).swapaxes(1, 2)
        to_left = np.einsum("abc,npa,npc->npb", rules, down, right, optimize=True)
        to_right = np.einsum("abc,npa,npb->npc", rules, down, left, optimize=True)
        down = normalized(np.stack([to_left, to_right], 2).reshape(n, -1, SYMBOLS))
    return -np.log(np.take_along_axis(down, leaves[..., None], -1)[..., 0][masked]).mean()


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rules = grammar()
    for name, thousands, seed in (("train", 200, 11), ("eval", 4, 12)):
        random = np.random.default_rng(seed)
        with open(folder / f"{name}.txt", "w") as file:
            for _ in range(thousands):
                file.writelines(" ".join(map(str, row)) + "\n" for row in sequences(rules, 1000, random))


def compare(folder):
    leaves = np.loadtxt(folder / "eval.txt", dtype=np.int64)
    masked = np.random.default_rng(13).random(leaves.shape) < MASKED
    frequency = np.bincount(leaves.ravel()) / leaves.size
    unigram = -(frequency * np.log(frequency)).sum()
    lowest = optimum(grammar(), leaves, masked)
    lines = [json.loads(line) for line in open(folder / "run/metrics.jsonl")]
    step, loss = next((line["step"], line["eval_loss"]) for line in reversed(lines) if "eval_loss" in line)
    print(f"unigram entropy {unigram:.4f}, optimum {lowest:.4f}, evaluation after step {step} {loss:.4f}")
    closed = (unigram - loss) / (unigram - lowest)
    print(f"distance from the optimum {loss - lowest:.4f}: {closed:.1%} of the gap is closed")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit(__doc__)
    {"write": write, "compare": compare}[sys.argv[1]](pathlib.Path(sys.argv[2]))
