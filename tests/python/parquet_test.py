#!/usr/bin/env python3
"""Parquet files as inputs of a program that was built with Arrow: tests/python/parquet_test.py build/cpu/tessera

Exits with 77 if pyarrow is not installed, or if the program was built without Parquet.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    print("skipped: pyarrow is not installed")
    sys.exit(77)

TESSERA = pathlib.Path(sys.argv[1]).resolve()
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
# Ways to store the same column: pages, encodings, compression and Arrow types.
LAYOUTS = {
    "plain": dict(use_dictionary=False, compression="none"),
    "dictionary": dict(use_dictionary=True, row_group_size=70, write_page_checksum=True),
    "fallback": dict(use_dictionary=True, dictionary_pagesize_limit=500, data_page_size=2000, compression="zstd"),
    "delta": dict(use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY", data_page_version="2.0", compression="gzip"),
    "lengths": dict(use_dictionary=False, column_encoding="DELTA_LENGTH_BYTE_ARRAY", row_group_size=1, compression="lz4"),
    "large": dict(type=pa.large_string(), compression="brotli", row_group_size=64),
    "category": dict(type=pa.dictionary(pa.int32(), pa.string()), write_page_index=True),
    "required": dict(nullable=False, data_page_size=300, compression="snappy"),
}


def tessera(*words, **options):
    return subprocess.run([TESSERA, *words], env=ENV, capture_output=True, text=True, errors="replace", **options)


def texts_of(count):
    """Documents of any length: some empty, some with blank lines, one longer than a piece of `prepare`."""
    draw = random.Random(5)
    words = ["fox ", "jumps", "狐", ". ", "\n", "\n\n", "É", "\r\n", "🦊"]
    texts = ["".join(draw.choices(words, k=draw.choice([0, 1, 5, 40, 400]))) for _ in range(count)]
    texts[count // 2] = "".join(draw.choices(words, k=500000))
    return texts + texts[:3]


def write(name, texts, column="text", type=pa.string(), nullable=True, **options):
    table = pa.table(
        {"id": pa.array(range(len(texts))), column: pa.array(texts, pa.string()).cast(type), "more": [["x"]] * len(texts)},
        schema=pa.schema([("id", pa.int64()), pa.field(column, type, nullable), ("more", pa.list_(pa.string()))]))
    if "column_encoding" in options:
        options["column_encoding"] = {column: options["column_encoding"]}
    pq.write_table(table, name, **options)


def write_lines(name, texts):
    pathlib.Path(name).write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def dataset(*inputs, options=()):
    done = tessera("prepare", "--quiet", "--overwrite", "--output", "out", "--input", *inputs, *options)
    assert done.returncode == 0, (inputs, done.stderr)
    return [pathlib.Path(f"out.{end}").read_bytes() for end in ("bin", "idx", "meta.json")], done.stdout


def refused(name, *facts, options=()):
    done = tessera("prepare", "--quiet", "--overwrite", "--output", "refused", "--input", name, *options)
    assert done.returncode == 1 and done.stderr.startswith("error: "), (name, done)
    for fact in (name, *facts):
        assert fact in done.stderr, (fact, done.stderr)
    assert not list(pathlib.Path().glob("refused*")), "files were left behind"


def check_same_as_lines():
    """A dataset of Parquet files is byte for byte that of the same documents in JSON lines."""
    texts = texts_of(300)
    write_lines("text.jsonl", texts)
    pathlib.Path("text.txt").write_text("plain\ntext")
    for name, layout in LAYOUTS.items():
        write(f"{name}.parquet", texts, **layout)
    for options in ["--append-eod --near-duplicates 0.8 --threads 2".split(), ["--sentences", "line"]]:
        expected, _ = dataset("text.jsonl", options=options)
        for name in LAYOUTS:
            assert dataset(f"{name}.parquet", options=options)[0] == expected, (name, options)
    mixed = ["text.txt", "{}", "text.jsonl", "{}"]
    expected, _ = dataset(*[name.format("text.jsonl") for name in mixed])
    assert dataset(*[name.format("delta.parquet") for name in mixed], options=["--threads", "3"])[0] == expected
    write("x0.parquet", texts[:100], column="body")
    write("x1", texts[100:], column="body")
    expected, _ = dataset("text.jsonl")
    options = ["--field", "body", "--format", "parquet"]
    assert dataset("x*", options=options)[0] == expected

    def vocabulary(name):
        done = tessera("tokenizer", "train", "--kind", "wordpiece", "--vocab-size", "60", "--input", name, "--output", "v",
                       "--overwrite")
        assert done.returncode == 0, done.stderr
        return pathlib.Path("v").read_bytes()
    assert vocabulary("dictionary.parquet") == vocabulary("text.jsonl")


def check_malformed_rows():
    """Null and invalid UTF-8 are errors with the row, or skipped and counted."""
    texts = [f"text {i}" for i in range(2500)]
    texts[2100] = None
    write("null.parquet", texts, row_group_size=1000)
    refused("null.parquet", 'null.parquet: row 2101: column "text" is null', "--skip-malformed")
    bad = pa.array([b"good", b"\xc3\xa9", b"\xed\xa0\x80"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": bad}), "utf8.parquet")
    refused("utf8.parquet", 'row 3: column "text" is not valid UTF-8')
    write_lines("good.jsonl", [text for text in texts if text] + ["good", "é"])
    expected, _ = dataset("good.jsonl")
    found, output = dataset("null.parquet", "utf8.parquet", options=["--skip-malformed"])
    assert found == expected
    assert "2 malformed lines or rows were skipped; the first: null.parquet: row 2101" in output, output
    write("nothing.parquet", [None, None])
    refused("nothing.parquet", "the first that was skipped: nothing.parquet: row 1", options=["--skip-malformed"])


def check_refused_files():
    columns = {
        "integer": (pa.array([1]), "INT64"),
        "binary": (pa.array([b"a"], pa.binary()), "BYTE_ARRAY"),
        "fixed": (pa.array([b"a"], pa.binary(1)), "FIXED_LEN_BYTE_ARRAY"),
        "list": (pa.array([["a"]]), "List"),
        "struct": (pa.array([{"text": "a"}]), "group of columns"),
        "none": (pa.array([None]), "Null"),
    }
    pq.write_table(pa.table({name: column for name, (column, _) in columns.items()}), "columns.parquet")
    for name, (_, type) in columns.items():
        refused("columns.parquet", f'column "{name}" must have one string in each row, but is of type {type}',
                options=["--field", name])
    refused("columns.parquet", 'has no column "text", but "integer", "binary"', "--field")
    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), "twice.parquet")
    refused("twice.parquet", 'has the column "text" twice')
    write("some.parquet", ["a"])
    refused("some.parquet", "each row of Parquet is a document", options=["--documents", "paragraph"])
    refused("some.parquet", "is Parquet, but with --tokenizer none", options=["--tokenizer", "none", "--vocab-size", "9"])
    pathlib.Path("text.parquet").write_text("this is text")
    refused("text.parquet", "cannot be read as Parquet")
    pathlib.Path("empty.parquet").write_text("")
    refused("empty.parquet", "cannot be read as Parquet")
    os.mkfifo("pipe.parquet")
    refused("pipe.parquet", "is not a file, and the index of Parquet is at its end")
    done = tessera("prepare", "--output", "refused", "--input", "-", "--format", "parquet", stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and "standard input: is not a file" in done.stderr, done


def check_damaged_files():
    """Damage is an error with the row, or does not matter; the program never crashes."""
    write("whole.parquet", texts_of(80), row_group_size=30, use_dictionary=False, write_page_checksum=True, data_page_size=400,
          compression="none")
    whole = pathlib.Path("whole.parquet").read_bytes()
    expected, _ = dataset("whole.parquet")
    at = whole.rindex("jumps".encode(), 0, len(whole) // 2)
    pathlib.Path("flipped.parquet").write_bytes(whole[:at] + b"J" + whole[at + 1:])
    refused("flipped.parquet", 'column "text" cannot be read from row', "CRC")
    for size in (len(whole) - 1, len(whole) // 2, 8):
        pathlib.Path("short.parquet").write_bytes(whole[:size])
        refused("short.parquet", "cannot be read as Parquet")
    draw = random.Random(7)
    for _ in range(60):
        bytes = bytearray(whole)
        footer = len(bytes) - 8 - int.from_bytes(whole[-8:-4], "little")
        for _ in range(draw.randint(1, 3)):
            bytes[draw.randrange(*draw.choice([(0, len(bytes)), (footer, len(bytes))]))] = draw.randrange(256)
        pathlib.Path("hostile.parquet").write_bytes(bytes)
        done = tessera("prepare", "--quiet", "--overwrite", "--output", "out", "--input", "hostile.parquet")
        assert done.returncode in (0, 1) and (done.returncode == 0 or done.stderr.startswith("error: ")), done


def main():
    write("a.parquet", ["a"])
    done = tessera("prepare", "--output", "out", "--input", "a.parquet")
    if "TESSERA_PARQUET" in done.stderr:
        print("skipped: the program was built without Parquet")
        sys.exit(77)
    check_same_as_lines()
    check_malformed_rows()
    check_refused_files()
    check_damaged_files()
    print("Parquet files are read")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tessera-parquet-") as folder:
        os.chdir(folder)
        main()
