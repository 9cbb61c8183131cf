"""Writes sentencepiece_golden.json: what the Python package `sentencepiece` makes of a varied text.

    python make_sentencepiece_goldens.py [--check]

Three small models are made of the texts of golden_texts.py:
    unigram  rules that make NFKC of the texts' characters and a space of white space, as the default
             rules do, which would be too large to keep; control and user-defined pieces
    bpe      the same rules, unknown text as bytes
    spaces   bpe without rules, in which every space counts
Of each text the file holds the tokens in each, and how they are shown again. Text that is not UTF-8
is decoded with errors="replace" first, as Python programs do.

`--check` makes the tokens anew with the models in the file and compares.
"""

import base64
import io
import json
import pathlib
import re
import sys
import tempfile
import unicodedata

import sentencepiece

from golden_texts import NOT_UTF8, TEXTS

GOLDEN = pathlib.Path(__file__).parent / "sentencepiece_golden.json"
RAW = [text.encode() for text in TEXTS] + NOT_UTF8
COMMON = {"character_coverage": 0.98, "num_threads": 1, "minloglevel": 2, "pad_id": 3}
MODELS = {
    "unigram": {"model_type": "unigram", "vocab_size": 420, "hard_vocab_limit": False,
                "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
                "user_defined_symbols": ["<tag/>", "日本"]},
    "bpe": {"model_type": "bpe", "vocab_size": 800, "byte_fallback": True,
            "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]},
    "spaces": {"model_type": "bpe", "vocab_size": 500, "normalization_rule_name": "identity",
               "remove_extra_whitespaces": False, "user_defined_symbols": ["<mask>", "▁▁"]},
}


def write_rules(path):
    rules = {space: " " for space in "\t\n\r\u00a0\u2003\u3000"}
    for character in sorted(set("".join(TEXTS))):
        normal = unicodedata.normalize("NFKC", character)
        if normal != character:
            rules.setdefault(character, normal)
    for accent in "\u0300\u0301\u0302":
        for letter in "aeiou":
            rules[letter + accent] = unicodedata.normalize("NFKC", letter + accent)
    code = lambda text: " ".join(f"{ord(c):X}" for c in text)
    path.write_text("".join(f"{code(a)}\t{code(b)}\n" for a, b in sorted(rules.items())))


def train(options):
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        write_rules(rules)
        options = {**COMMON, **options}
        if "normalization_rule_name" not in options:
            options["normalization_rule_tsv"] = str(rules)
        out = io.BytesIO()
        lines = [line for text in TEXTS for line in text.split("\n")]
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out,
                                                 **options)
        return out.getvalue()


def cases(model, words):
    """Of each text the tokens, and those of its words one by one where they are others: the scores of
    a unigram model are summed up in fp32 from the start of the text on, so that what stands before
    a word can decide between equal scores."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    made = []
    for raw in RAW:
        text = raw.decode(errors="replace")
        ids = processor.encode(text)
        case = {"ids": ids, "shown": processor.decode(ids)}
        by_word = [i for word in re.split("[ \n\t\r]+", text) for i in processor.encode(word)]
        if words and by_word != ids:
            case["by_word"] = by_word
        made.append(case)
    return made


def main():
    check = "--check" in sys.argv[1:]
    if check:
        kept = json.loads(GOLDEN.read_text())
        models = {name: base64.b64decode(kept[name]["model"]) for name in MODELS}
    else:
        models = {name: train(options) for name, options in MODELS.items()}
    golden = {name: {"model": base64.b64encode(model).decode(), "cases": cases(model, name != "spaces")}
              for name, model in models.items()}
    golden["texts"] = [raw.hex() for raw in RAW]
    text = json.dumps(golden, separators=(",", ":"), sort_keys=True).replace(',{"', ',\n{"')
    text += "\n"
    if not check:
        GOLDEN.write_text(text)
    elif GOLDEN.read_text() != text:
        sys.exit(f"{GOLDEN} differs from what is made now")
    else:
        print(f"{GOLDEN} is what is made now")


main()
