#!/usr/bin/env python3
"""Reads the TensorBoard files of a run with TensorBoard's own reader, and compares them with metrics.jsonl and the
configuration.

    tensorboard_events.py RUN

RUN trained with `log.tensorboard: true`, from its first step. Exits with 1 if a number is missing, is there twice or
differs by more than float32 rounds.
"""

import json
import math
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def tag(key):
    if key.startswith("eval_"):
        return f"eval/{key.removeprefix('eval_')}"
    return f"checkpoint/{key}" if key.startswith("save_") else f"train/{key}"


def numbers(line):
    """(tag, value) of a line of metrics.jsonl."""
    for key, value in line.items():
        if isinstance(value, (int, float)) and key != "step":
            yield tag(key), value
        if isinstance(value, list) and key.startswith("eval_"):
            yield from ((f"{tag(key)}/{i}", one) for i, one in enumerate(value) if one is not None)


def main():
    run = pathlib.Path(sys.argv[1])
    events = EventAccumulator(
        str(run / "tensorboard"), size_guidance={"scalars": 0, "histograms": 0, "images": 0, "tensors": 0})
    events.Reload()
    expected = {}
    for text in (run / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        for name, value in numbers(line):
            expected.setdefault(name, []).append((line["step"], value))
    found = {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}
    wrong = 0
    for name in sorted(expected.keys() | found.keys()):
        ours, theirs = expected.get(name, []), found.get(name, [])
        same = len(ours) == len(theirs) and all(
            a[0] == b[0] and math.isclose(a[1], b[1], rel_tol=1e-6) for a, b in zip(ours, theirs)
        )
        if not same:
            wrong += 1
            print(f"{name}: metrics.jsonl has {len(ours)} numbers, TensorBoard {len(theirs)}: {ours[:5]}, {theirs[:5]}")
    counts = {}
    for name in events.Tags()["histograms"]:
        for event in events.Histograms(name):
            histogram = event.histogram_value
            inside = histogram.min <= histogram.max and sum(histogram.bucket) == histogram.num
            rises = all(a < b for a, b in zip(histogram.bucket_limit, histogram.bucket_limit[1:]))
            # Weights and gradients of a parameter have as many elements, in each step.
            same = counts.setdefault(name.partition("/")[2], histogram.num) == histogram.num
            if not (inside and rises and same):
                wrong += 1
                print(f"{name}, step {event.step}: {histogram}")
    pictures = [event for name in events.Tags()["images"] for event in events.Images(name)]
    for event in pictures:
        if not event.encoded_image_string.startswith(b"\x89PNG") or event.width < 8 or event.height < 8:
            wrong += 1
            print(f"a picture of step {event.step} is no PNG file of {event.width} x {event.height} pixels")
    texts = events.Tensors("configuration")
    if not all("train:" in event.tensor_proto.string_val[0].decode() for event in texts):
        wrong += 1
        print("a configuration is no YAML of a run")
    print(f"{len(found)} tags, {sum(map(len, found.values()))} numbers, {len(counts)} parameters with histograms, "
          f"{len(pictures)} pictures, {len(texts)} configurations, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
