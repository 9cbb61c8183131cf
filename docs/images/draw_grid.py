"""Draws the rank grid of README.md: python3 docs/images/draw_grid.py writes rank_grid.svg."""

from draw_masks import FAINT, INK, Picture

TENSOR, DATA = 4, 2
HEADS = 12
WIDTH, HEIGHT = 150, 74
LEFT, TOP = 118, 62
TP, DP = "#2f6fb3", "#c0603a"


def arrow(picture, x1, y1, x2, y2, color):
    picture.parts.append(
        f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{color}' stroke-width='2' "
        f"marker-start='url(#{color[1:]})' marker-end='url(#{color[1:]})'/>"
    )


def marker(picture, color):
    picture.parts.append(
        f"<defs><marker id='{color[1:]}' viewBox='0 0 10 10' refX='8' refY='5' markerWidth='7' "
        f"markerHeight='7' orient='auto-start-reverse'><path d='M0 0L10 5L0 10z' fill='{color}'/></marker></defs>"
    )


def draw():
    gap = 14
    right = LEFT + TENSOR * (WIDTH + gap)
    picture = Picture(right + 152, TOP + DATA * (HEIGHT + gap) + 78, "Eight ranks as 2 data by 4 tensor ranks")
    marker(picture, TP)
    marker(picture, DP)
    picture.text(20, 28, "8 ranks = 2 data × 4 tensor (parallel.tensor: 4)", 15, INK, "start", "600")
    for t in range(TENSOR):
        picture.text(LEFT + t * (WIDTH + gap) + WIDTH / 2, TOP - 10, f"tensor rank {t}", 12, FAINT)
    for d in range(DATA):
        y = TOP + d * (HEIGHT + gap)
        picture.text(20, y + 34, f"data rank {d}", 12, FAINT, "start")
        picture.text(20, y + 51, "(a replica)", 12, FAINT, "start")
        for t in range(TENSOR):
            x = LEFT + t * (WIDTH + gap)
            first = t * HEADS // TENSOR
            picture.parts.append(
                f"<rect x='{x}' y='{y}' width='{WIDTH}' height='{HEIGHT}' rx='6' fill='#eef4fa' "
                "stroke='#b9cfe6'/>"
            )
            picture.text(x + WIDTH / 2, y + 20, f"rank {d * TENSOR + t}", 13, INK, weight="600")
            picture.text(x + WIDTH / 2, y + 40, f"heads {first} to {first + HEADS // TENSOR - 1}", 12)
            picture.text(x + WIDTH / 2, y + 57, "1/4 of MLP, vocabulary", 12)
        picture.text(right + 6, y + 34, ("first" if d == 0 else "second") + " half", 12, INK, "start")
        picture.text(right + 6, y + 51, "of the batch", 12, INK, "start")
    bottom = TOP + DATA * (HEIGHT + gap)
    arrow(picture, LEFT, bottom + 8, right - gap, bottom + 8, TP)
    picture.text((LEFT + right - gap) / 2, bottom + 28, "tp group: sums of activations, twice per block forward and twice backward", 12, TP)
    arrow(picture, right + 112, TOP, right + 112, bottom - gap, DP)
    picture.text(right + 140, bottom + 28, "dp group:", 12, DP, "end")
    picture.text(right + 140, bottom + 45, "gradient sums in buckets, while backward still runs", 12, DP, "end")
    picture.save("rank_grid.svg")


if __name__ == "__main__":
    draw()
