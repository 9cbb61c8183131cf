"""Draws the pictures of docs/masks.md: python3 docs/images/draw_masks.py writes the SVG files."""

from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent

SEEN, HIDDEN, HATCH, INK, FAINT = "#2f6fb3", "#eceae4", "#bdb8aa", "#24292f", "#6e7781"
PART = "#8fb8e0"
DOCUMENTS = ("#2f6fb3", "#c0603a", "#3d8b57")
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


class Picture:
    def __init__(self, width, height, title):
        self.parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
            f"width='{width}' height='{height}' role='img' {FONT}>",
            f"<title>{escape(title)}</title>",
            "<defs><pattern id='hidden' width='6' height='6' patternUnits='userSpaceOnUse' "
            f"patternTransform='rotate(45)'><rect width='6' height='6' fill='{HIDDEN}'/>"
            f"<line x1='0' y1='0' x2='0' y2='6' stroke='{HATCH}' stroke-width='2'/></pattern></defs>",
            f"<rect width='{width}' height='{height}' rx='8' fill='#ffffff'/>",
        ]

    def cell(self, x, y, size, fill, width=None):
        fill = "url(#hidden)" if fill is None else fill
        self.parts.append(
            f"<rect x='{x + 0.75}' y='{y + 0.75}' width='{(width or size) - 1.5}' "
            f"height='{size - 1.5}' rx='2' fill='{fill}'/>"
        )

    def text(self, x, y, text, size=13, fill=INK, anchor="middle", weight="normal"):
        self.parts.append(
            f"<text x='{x}' y='{y}' font-size='{size}' fill='{fill}' text-anchor='{anchor}' "
            f"font-weight='{weight}'>{escape(text)}</text>"
        )

    def grid(self, x, y, size, count, fill_of, axes=True):
        """Queries down, keys across; fill_of(t, s) is a color, or None where s is hidden."""
        for t in range(count):
            for s in range(count):
                self.cell(x + s * size, y + t * size, size, fill_of(t, s))
        if not axes:
            return
        for i in range(count):
            self.text(x + (i + 0.5) * size, y - 5, str(i), 10, FAINT)
            self.text(x - 8, y + (i + 0.5) * size + 3.5, str(i), 10, FAINT)

    def legend(self, x, y, entries):
        for fill, text in entries:
            self.cell(x, y, 16, fill)
            self.text(x + 22, y + 12.5, text, 12, INK, "start")
            x += 22 + 6.6 * len(text) + 24

    def save(self, name):
        (FOLDER / name).write_text("\n".join(self.parts) + "\n</svg>\n")


def causal(t, s):
    return s > t


def padding(length):
    return lambda t, s: s >= length


def window(width):
    return lambda t, s: abs(t - s) >= width


def documents(ends):
    def document(row):
        return sum(row >= end for end in ends)

    return lambda t, s: document(t) != document(s)


def arbitrary(t, s):
    return not (s == 0 or s == t or t == 0 or (s - t) % 3 == 0)


def union(*masks):
    return lambda t, s: any(mask(t, s) for mask in masks)


def seen_in(mask, colour=SEEN):
    return lambda t, s: None if mask(t, s) else colour


def draw_kinds():
    count, size, gap, left, top = 8, 20, 52, 44, 76
    side = count * size
    picture = Picture(left + 3 * side + 2 * gap + 24, top + 2 * side + 84 + 24, "Six kinds of mask")
    picture.legend(left, 14, [(SEEN, "seen"), (None, "hidden")])
    picture.text(
        left + 3 * side + 2 * gap, 27, "query t down, key s across", 12, FAINT, anchor="end"
    )
    kinds = [
        ("none", lambda t, s: False),
        ("causal", causal),
        ("padding: lengths[b] = 6", padding(6)),
        ("window = 3", window(3)),
        ("documents = {0, 3, 8}", documents((3, 8))),
        ("hidden or additive: any", arbitrary),
    ]
    for i, (name, mask) in enumerate(kinds):
        x, y = left + i % 3 * (side + gap), top + i // 3 * (side + 84)
        picture.text(x + side / 2, y - 22, name, 13, weight="600")
        picture.grid(x, y, size, count, seen_in(mask))
    picture.save("masks.svg")


def draw_compositions():
    count, size, left, top = 8, 16, 40, 52
    side, gap = count * size, 58
    rows = [
        ("causal", causal, "padding, 6 of 8 are real", padding(6), "causal and padding"),
        ("causal", causal, "documents of 3 and 5", documents((3, 8)), "causal and documents"),
        ("causal", causal, "window of 3", window(3), "causal and window"),
    ]
    picture = Picture(left + 3 * side + 2 * gap + 24, top + 3 * side + 2 * 60 + 24, "Masks compose")
    for i, (first_name, first, second_name, second, name) in enumerate(rows):
        y = top + i * (side + 60)
        for j, (label, mask) in enumerate(
            ((first_name, first), (second_name, second), (name, union(first, second)))
        ):
            x = left + j * (side + gap)
            picture.text(x + side / 2, y - 22, label, 12, weight="600" if j == 2 else "normal")
            picture.grid(x, y, size, count, seen_in(mask))
        for j, sign in enumerate("+="):
            x = left + (j + 1) * side + j * gap + (gap - 8) / 2
            picture.text(x, y + side / 2 + 8, sign, 24, FAINT)
    picture.save("mask_composition.svg")


def draw_tiles():
    tiles, size, left, top = 6, 36, 40, 64
    cells = 4  # queries and keys of a tile, as drawn
    side, gap = tiles * size, 70
    picture = Picture(left + 2 * side + gap + 24, top + side + 62, "What a mask hides of tiles")
    masks = [
        ("causal", causal),
        ("causal and a window", union(causal, window(11))),
    ]
    for i, (name, mask) in enumerate(masks):
        x, y = left + i * (side + gap), top
        picture.text(x + side / 2, y - 14, name, 13, weight="600")

        def fill(t, s, mask=mask):
            hidden = [
                mask(t * cells + i, s * cells + j) for i in range(cells) for j in range(cells)
            ]
            return None if all(hidden) else PART if any(hidden) else SEEN

        picture.grid(x, y, size, tiles, fill, axes=False)
    picture.text(left, 24, "One square is a tile of queries × keys", 12, FAINT, anchor="start")
    picture.legend(
        left,
        top + side + 24,
        [
            (SEEN, "all seen"),
            (PART, "part hidden: computed, then masked"),
            (None, "all hidden: skipped"),
        ],
    )
    picture.save("mask_tiles.svg")


def draw_without_padding():
    size, left, top = 30, 112, 60
    rows = (("the", "cat", "sat", "on", "it"), ("a", "dog"), ("we", "left", "early"))
    length, step = 6, size + 14
    total = sum(map(len, rows))
    picture = Picture(left + total * step + 40, top + 3 * size + 170, "A batch without its padding")
    picture.text(left, 30, "with padding: 3 × 6 positions", 13, anchor="start", weight="600")
    for b, words in enumerate(rows):
        y = top + b * size - 14
        picture.text(left - 12, y + 19, f"sequence {b}", 12, FAINT, anchor="end")
        for t in range(length):
            fill = DOCUMENTS[b] if t < len(words) else None
            picture.cell(left + t * step, y, size, fill, width=step)
            if t < len(words):
                picture.text(left + (t + 0.5) * step, y + 19, words[t], 12, "#ffffff")
    y = top + 3 * size + 50
    picture.text(
        left, y - 16, f"without: {total} rows, one after the other", 13, anchor="start", weight="600"
    )
    lines = {"padded": [], "position": []}
    n, ends = 0, [0]
    for b, words in enumerate(rows):
        for t, word in enumerate(words):
            x = left + n * step
            picture.cell(x, y, size, DOCUMENTS[b], width=step)
            picture.text(x + step / 2, y + 19, word, 12, "#ffffff")
            lines["padded"].append(b * length + t)
            lines["position"].append(t)
            n += 1
        ends.append(n)
    for i, (name, values) in enumerate(lines.items()):
        line = y + size + 22 + i * 20
        label = "padded_rows" if name == "padded" else "positions"
        picture.text(left - 12, line, label, 12, FAINT, anchor="end")
        for n, value in enumerate(values):
            picture.text(left + (n + 0.5) * step, line, str(value), 12)
    line = y + size + 22 + 44
    picture.text(left - 12, line, "documents", 12, FAINT, anchor="end")
    for end in ends:
        x = left + end * step
        picture.parts.append(
            f"<line x1='{x}' y1='{y - 6}' x2='{x}' y2='{line - 14}' stroke='{FAINT}' "
            "stroke-width='1' stroke-dasharray='3 3'/>"
        )
        picture.text(x, line, str(end), 12, weight="600")
    picture.save("without_padding.svg")


if __name__ == "__main__":
    draw_kinds()
    draw_compositions()
    draw_tiles()
    draw_without_padding()
