"""The golden file that a script writes or compares: a safetensors file with float64 results."""

import argparse

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

CHECK_TOLERANCE = 1e-6  # a few roundings to float32, the format of the file


def rounded(value):
    """Rounds once to float32, contiguous, as the file stores it."""
    return np.array(value, dtype=np.float32, order="C")


def deviation(made, stored):
    """The largest difference relative to the largest magnitude; infinite if shapes differ or values are not finite."""
    if made.dtype != stored.dtype or made.shape != stored.shape:
        return np.inf
    difference = np.abs(made.astype(np.float64) - stored).max()
    if not np.isfinite(difference):
        return np.inf
    return difference / max(np.abs(stored).max(), np.finfo(np.float32).tiny)


def check(path, goldens):
    stored = load_file(path)
    if stored.keys() != goldens.keys():
        print(f"{path.name}: keys differ: {sorted(stored.keys() ^ goldens.keys())}")
        return False
    worst, key = max((deviation(goldens[key], stored[key]), key) for key in goldens)
    print(f"{path.name}: max relative deviation {worst:.3g} ({key}), allowed {CHECK_TOLERANCE:g}")
    return bool(worst <= CHECK_TOLERANCE)


def main(description, path, make_goldens):
    """Writes the result of `make_goldens` to `path`, or compares it with the file. Returns the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="compare with the file; write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    goldens = make_goldens()
    if arguments.check:
        return 0 if check(path, goldens) else 1
    save_file(goldens, path)
    print(f"{path}: {len(goldens)} tensors, {path.stat().st_size} bytes")
    return 0
