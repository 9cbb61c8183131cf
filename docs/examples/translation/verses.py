#!/usr/bin/env python3
"""Writes the verses that the Debian packages sword-text-kjv and sword-text-sparv have in common as pairs of texts,
English to Spanish.

    verses.py FOLDER

FOLDER/train.tsv, eval.tsv and text.txt (both languages of train.tsv, for the tokenizer). eval.tsv has four whole books:
Ruth, Jonah, Philippians and James. Needs Python alone.
"""

import html
import pathlib
import re
import struct
import sys
import zlib

TEXTS = pathlib.Path("/usr/share/sword/modules/texts/ztext")
PACKAGES = {"engKJV2006eb": "sword-text-kjv", "spaRV1909eb": "sword-text-sparv"}
# (testament, number of the book in it); both modules have the books and verses of the King James Version.
HELD_OUT = {("ot", 8), ("ot", 32), ("nt", 11), ("nt", 20)}


def plain(osis):
    """The text of a verse without notes, titles and tags."""
    text = re.sub(r"<(note|title)\b[^>]*?(/>|>.*?</\1>)", "", osis, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]*>|¶", "", text)).split())


def verses(module):
    """{(testament, book, index of the verse): text}. A compressed block is a book ("BlockType=BOOK")."""
    found = {}
    for testament in ("ot", "nt"):
        folder = TEXTS / module
        if not folder.is_dir():
            sys.exit(f"{folder} does not exist: apt install {PACKAGES[module]}")
        blocks, index, data = ((folder / f"{testament}.{end}").read_bytes() for end in ("bzs", "bzv", "bzz"))
        books = [
            zlib.decompress(data[start : start + size]) for start, size, _ in struct.iter_unpack("<III", blocks)
        ]
        for verse, (book, start, size) in enumerate(struct.iter_unpack("<IIH", index)):
            text = plain(books[book][start : start + size].decode()) if size else ""
            if text:
                found[testament, book, verse] = text
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    english, spanish = (verses(module) for module in PACKAGES)
    pairs = {"train": [], "eval": []}
    for key in sorted(english.keys() & spanish.keys()):
        pairs["eval" if key[:2] in HELD_OUT else "train"].append((english[key], spanish[key]))
    for name, rows in pairs.items():
        lines = [f"{source}\t{target}\n" for source, target in rows]
        (out / f"{name}.tsv").write_text("source\ttarget\n" + "".join(lines))
        print(f"{out / name}.tsv: {len(rows)} verses")
    (out / "text.txt").write_text("".join(f"{source}\n{target}\n" for source, target in pairs["train"]))


if __name__ == "__main__":
    main()
