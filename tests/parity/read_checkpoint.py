#!/usr/bin/env python3
"""Reads a Tessera checkpoint with the Python package safetensors alone.

    pip install safetensors numpy
    python3 tests/parity/read_checkpoint.py RUN/checkpoints/step_00000100

Puts every global tensor together from its slices and prints its name, shape, dtype and L2 norm.
"""

import argparse
import json
import pathlib

import numpy as np
from safetensors import safe_open

# numpy has no bfloat16, so such tensors are parsed here and widened to float32.
NUMPY_DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1", "BF16": "<u2"}


def read_header(path):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(length)), 8 + length


def read_bf16(path, key):
    header, data = read_header(path)
    begin, end = header[key]["data_offsets"]
    bits = np.fromfile(path, "<u2", count=(end - begin) // 2, offset=data + begin)
    return (bits.astype(np.uint32) << 16).view(np.float32).reshape(header[key]["shape"])


def read_slice(folder, piece, dtype):
    path = folder / piece["file"]
    with safe_open(path, framework="np") as file:
        assert file.get_slice(piece["key"]).get_dtype() == dtype, (path, piece["key"])
        return read_bf16(path, piece["key"]) if dtype == "BF16" else file.get_tensor(piece["key"])


def read_tensor(folder, tensor):
    """Assembles the global tensor from its slices, as a numpy array."""
    dtype = tensor["dtype"]
    whole = np.zeros(tensor["shape"], "<f4" if dtype == "BF16" else NUMPY_DTYPES[dtype])
    for piece in tensor["slices"]:
        place = tuple(slice(o, o + n) for o, n in zip(piece["offset"], piece["shape"]))
        whole[place] = read_slice(folder, piece, dtype)
    return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="the folder of one step")
    folder = parser.parse_args().folder
    manifest = json.loads((folder / "manifest.json").read_text())
    if manifest["format_version"] != 1:
        raise SystemExit(f"format_version is {manifest['format_version']}, this script reads 1")
    print(f"step {manifest['step']}, {manifest['samples']} samples")
    for tensor in manifest["tensors"]:
        whole = read_tensor(folder, tensor)
        norm = np.linalg.norm(whole.astype(np.float64).ravel())
        print(f"{tensor['name']}  {tuple(tensor['shape'])}  {tensor['dtype']}  {norm:.9g}")


if __name__ == "__main__":
    main()
