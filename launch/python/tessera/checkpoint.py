"""Reads the tensors of a checkpoint (docs/checkpoints.md)."""

import json
import pathlib

import numpy as np

_DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1", "BF16": "<u2"}

_EMA = "/ema"


def _step_folder(path):
    path = pathlib.Path(path)
    if (path / "manifest.json").exists():
        return path
    steps = sorted((path / "checkpoints").glob("step_*"), key=lambda step: int(step.name[5:]))
    if not steps:
        raise FileNotFoundError(f"{path} is neither a checkpoint nor a run with checkpoints")
    return steps[-1]


def _read_slice(path, key, dtype):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(length))[key]
    if entry["dtype"] != dtype:
        raise ValueError(f"{path}: {key} is {entry['dtype']}, but the manifest says {dtype}")
    values = np.memmap(path, _DTYPES[dtype], "r", 8 + length + entry["data_offsets"][0], tuple(entry["shape"]))
    # numpy has no bfloat16.
    return (values.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else values


def read_checkpoint(path, kind="model", ema=False):
    """The global tensors of a checkpoint, a dict from names to arrays in host memory.

    `path` is the folder of a step, or of a run, whose newest checkpoint is read. `kind` is "model" for parameters or
    "optimizer" for its moments and averages. With `ema`, the parameters are the averaged weights of a run with
    `optimizer.ema_decay`; those that were frozen are their own average. bf16 becomes fp32. Checksums
    are not compared: `tessera verify` does that.
    """
    folder = _step_folder(path)
    manifest = json.loads((folder / "manifest.json").read_text())
    if manifest["format_version"] != 1:
        raise ValueError(f"{folder}: format_version is {manifest['format_version']}, but this module reads 1")
    stored = {tensor["name"]: tensor for tensor in manifest["tensors"]}
    if ema and not any(name.endswith(_EMA) for name in stored):
        raise ValueError(f"{folder} has no averaged weights: its run did not set optimizer.ema_decay")
    tensors = {}
    for name, tensor in stored.items():
        if tensor["kind"] != kind:
            continue
        if ema:
            tensor = stored.get(name + _EMA, tensor)
        dtype = tensor["dtype"]
        whole = np.empty(tensor["shape"], "<f4" if dtype == "BF16" else _DTYPES[dtype])
        for piece in tensor["slices"]:  # they cover the tensor
            place = tuple(slice(first, first + size) for first, size in zip(piece["offset"], piece["shape"]))
            whole[place] = _read_slice(folder / piece["file"], piece["key"], dtype)
        tensors[name] = whole
    return tensors
