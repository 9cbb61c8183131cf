"""Reads the metrics.jsonl of a run."""

import json
import pathlib

import numpy as np


def read_metrics(run, having="loss"):
    """The lines of RUN/metrics.jsonl that have the field `having`, as a dict of columns of equal length.

    "loss" selects the log intervals, "eval_loss" evaluations, "save_seconds" checkpoints; docs/guide.md lists all
    fields. A number is NaN, and any other value None, in lines without it.
    """
    with open(pathlib.Path(run) / "metrics.jsonl", encoding="utf-8") as file:
        # A run that is being written may end in half a line.
        lines = [json.loads(line) for line in file if line.endswith("\n")]
    lines = [line for line in lines if having in line]
    columns = {}
    for name in dict.fromkeys(name for line in lines for name in line):
        values = [line.get(name) for line in lines]
        if all(isinstance(value, (int, float, type(None))) for value in values):
            whole = all(isinstance(value, int) for value in values)
            columns[name] = np.array(values, np.int64 if whole else np.float64)
        else:
            columns[name] = np.array(values, object)
    return columns
