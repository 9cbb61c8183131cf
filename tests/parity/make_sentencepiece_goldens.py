"""Writes sentencepiece_golden.json: the tokens that the Python package `sentencepiece` produces.

    python make_sentencepiece_goldens.py [--check]

Three small models are trained on the texts of golden_texts.py:
    unigram  rules that apply NFKC to the characters of the texts and turn white space into a space, like
             the default rules, which are too large to store; control and user-defined pieces
    bpe      the same rules; unknown text becomes bytes
    spaces   bpe without rules, so that every space counts
For each text the file contains the tokens of each model, and the decoded text. Text that is not UTF-8
is first decoded with errors="replace", as Python programs do.

`--check` recomputes the tokens with the models in the file and compares.
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
    """The tokens of each text and, if they differ, those of its words one by one: a unigram model sums
    scores in fp32 from the start of the text, so the preceding text can decide between equal scores."""
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
