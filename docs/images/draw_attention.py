"""Draws cross-attention for docs/masks.md: python3 docs/images/draw_attention.py REPORT.json LAYER writes
cross_attention.svg, from what `tessera attention` wrote for an encoder-decoder."""

import json
import sys

from draw_masks import FAINT, Picture

STOPS = ("f8fbfe", "d3e4f3", "94c1e0", "4a91c6", "1d5fa6", "082f6b")  # of the page, launch/tools/attention
SIZE, LEFT, TOP = 17, 54, 62


def color(weight):
    place = weight**0.5 * (len(STOPS) - 1)
    below = min(int(place), len(STOPS) - 2)
    pair = [[int(stop[i : i + 2], 16) for i in (0, 2, 4)] for stop in STOPS[below : below + 2]]
    return "#" + "".join(f"{round(a + (place - below) * (b - a)):02x}" for a, b in zip(*pair))


def shown(token):
    return {" ": "␣", "[END]": "end"}.get(token, token)


def draw(sequence, layer):
    source = [shown(token) for token in sequence["source"]["tokens"]]
    target = ["start"] + [shown(token) for token in sequence["target"]["tokens"][1:]]
    cross = next(a for a in sequence["attentions"] if a["attention"] == "cross")
    heads = [head for head in cross["heads"] if head["layer"] == layer]
    step = LEFT + SIZE * len(source) + 6
    picture = Picture(
        step * len(heads) + 14, TOP + SIZE * len(target) + 14, "Cross-attention: targets down, the source across"
    )
    for number, head in enumerate(heads):
        left = number * step + LEFT
        picture.text(left + SIZE * len(source) / 2, 22, f"layer {layer}, head {head['head']}", 13, weight="600")
        if number == 0:
            picture.text(left - 7, TOP - 20, "source →", 10, FAINT, "end")
            picture.text(left - 7, TOP - 6, "target ↓", 10, FAINT, "end")
        for s, token in enumerate(source):
            picture.text(left + (s + 0.5) * SIZE, TOP - 6, token, 9 if len(token) > 1 else 12)
        for t, token in enumerate(target):
            picture.text(left - 7, TOP + (t + 0.5) * SIZE + 4, token, 10 if len(token) > 1 else 12, anchor="end")
            for s in range(len(source)):
                picture.cell(left + s * SIZE, TOP + t * SIZE, SIZE, color(head["weights"][t][s]))
    picture.save("cross_attention.svg")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as report:
        draw(json.load(report)["sequences"][0], int(sys.argv[2]))
