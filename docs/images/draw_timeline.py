"""Draws a step of a timeline as docs/images/timeline.svg:

    python3 docs/images/draw_timeline.py RUN/timeline/rank_0.json RUN/timeline/rank_1.json ...
"""

import json
import sys
from pathlib import Path

from draw_masks import FAINT, INK, Picture

FORWARD, BACKWARD, HEAD, OPTIMIZER, WAIT, REDUCE = "#2f6fb3", "#8fb8e0", "#3d8b57", "#c0603a", "#e0b040", "#7a5fa8"
WIDTH, LEFT, ROW = 760, 150, 26


def kind(name):
    if name.startswith("wait for all_reduce of gradients"):
        return WAIT
    if name == "optimizer":
        return OPTIMIZER
    if name == "language head":
        return HEAD
    if name.startswith(("blocks.", "embeddings")):
        return BACKWARD if name.endswith("backward") else FORWARD
    return None


def rows_of(path):
    """Time ranges of the last step, in microseconds: of the step's parts, its background work and pending reductions."""
    events = json.loads(Path(path).read_text())["traceEvents"]
    step = [e for e in events if e["name"] == "step" and e["ph"] == "X"][-1]
    begin, end = step["ts"], step["ts"] + step["dur"]
    inside = [e for e in events if e["ph"] != "M" and begin <= e["ts"] <= end]
    parts = [(e["ts"], e["ts"] + e["dur"], kind(e["name"])) for e in inside if e["ph"] == "X" and kind(e["name"])]
    background = [(e["ts"], e["ts"] + e["dur"], REDUCE) for e in inside if e["ph"] == "X" and e["tid"] == 1]
    name = "all_reduce of gradients"
    starts = {e["id"]: e["ts"] for e in inside if e["ph"] == "b" and e["name"] == name}
    pending = [(starts[e["id"]], e["ts"], REDUCE) for e in inside if e["ph"] == "e" and e["id"] in starts]
    return begin, end, [("forward, backward", parts), ("gradients pending", pending), ("background copies", background)]


def draw(paths):
    ranks = [rows_of(path) for path in paths]
    span = max(end - begin for begin, end, _ in ranks)
    height = 64 + len(ranks) * (3 * ROW + 30) + 46
    picture = Picture(LEFT + WIDTH + 30, height, "A training step on two data ranks")
    picture.text(20, 26, f"One training step of {len(ranks)} data ranks, from their timelines", 15, INK, "start", "600")
    y = 56
    for rank, (begin, _, rows) in enumerate(ranks):
        picture.text(20, y - 4, f"rank {rank}", 13, INK, "start", "600")
        y += 8
        for name, ranges in rows:
            picture.text(LEFT - 12, y + 14, name, 12, FAINT, "end")
            picture.parts.append(f"<rect x='{LEFT}' y='{y}' width='{WIDTH}' height='{ROW - 6}' fill='#f3f2ee'/>")
            for start, stop, color in sorted(ranges):
                x, width = LEFT + (start - begin) / span * WIDTH, max((stop - start) / span * WIDTH, 1)
                picture.parts.append(
                    f"<rect x='{x:.1f}' y='{y + 1}' width='{width:.1f}' height='{ROW - 8}' "
                    f"fill='{color}' fill-opacity='0.85' stroke='#ffffff' stroke-width='0.5'/>"
                )
            y += ROW
        y += 22
    for tenth in range(0, 11, 2):
        x = LEFT + tenth / 10 * WIDTH
        picture.text(x, y, f"{span * tenth / 10 / 1000:.0f} ms", 11, FAINT)
    picture.legend(
        LEFT,
        y + 12,
        [
            (FORWARD, "forward"), (HEAD, "head and loss"), (BACKWARD, "backward"), (WAIT, "waits"),
            (OPTIMIZER, "AdamW"), (REDUCE, "gradient reduction"),
        ],
    )
    picture.save("timeline.svg")


if __name__ == "__main__":
    draw(sys.argv[1:])
