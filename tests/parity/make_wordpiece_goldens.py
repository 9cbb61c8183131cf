"""Writes wordpiece_golden.json: the tokens that the Python package `tokenizers` produces with WordPiece.

    python make_wordpiece_goldens.py [--check]

Two small vocabularies are built from the texts below, uncased and cased. For each text the file
contains the tokens in both, and the decoded text. Text that is not UTF-8 is first decoded with
errors="replace", as Python programs do. For the characters of Unicode 14, block by block, it contains
a hash of the words that "a" + character + "b" is split into.

`--check` compares with the file instead of writing it.
"""

import json
import pathlib
import sys
import unicodedata

from golden_texts import NOT_UTF8, TEXTS, fnv
from tokenizers import BertWordPieceTokenizer
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

GOLDEN = pathlib.Path(__file__).parent / "wordpiece_golden.json"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BLOCK = 4096
# `tokenizers` has the normalization tables of an earlier Unicode version, which do not compose this vowel.
LATER_COMPOSED = {0x11938}


def normalizer_of(cased):
    return BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None,
                          lowercase=not cased)


def make_vocabulary(cased):
    """A vocabulary of some whole words of the first texts, and of all their characters and longer pieces."""
    normalizer, words = normalizer_of(cased), BertPreTokenizer()
    tokens = set()
    for text in TEXTS[:23]:
        for i, (word, _) in enumerate(words.pre_tokenize_str(normalizer.normalize_str(text))):
            word = word[:20]
            tokens.update([word[0], word[:3]] + ["##" + c for c in word[1:]])
            tokens.update([word] if i % 3 == 0 else ["##" + word[-3:], "##" + word[3:]])
    return SPECIAL + sorted(tokens - {"##"})


def make_tokenizer(tokens, cased, special):
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = BertWordPieceTokenizer(vocab, lowercase=not cased, clean_text=True)
    if not special:  # what stands in the text is text
        tokenizer._tokenizer.encode_special_tokens = True
    return tokenizer


def clean_up(text):
    """transformers' clean_up_tokenization()."""
    for a, b in [(" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
                 (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")]:
        text = text.replace(a, b)
    return text


def show(tokenizer, ids):
    tokenizer._tokenizer.decoder = None
    pieces = [tokenizer.id_to_token(i) for i in ids]
    pieces = [p for p in pieces if p not in ("[PAD]", "[CLS]", "[SEP]")]
    return clean_up(" ".join(pieces).replace(" ##", ""))


def cases(tokens, cased):
    plain = make_tokenizer(tokens, cased, special=False)
    special = make_tokenizer(tokens, cased, special=True)
    made = []
    for raw in [text.encode() for text in TEXTS] + NOT_UTF8:
        text = raw.decode(errors="replace")
        ids = plain.encode(text, add_special_tokens=False).ids
        case = {"hex": raw.hex(), "ids": ids, "shown": show(plain, ids)}
        with_special = special.encode(text, add_special_tokens=False).ids
        if with_special != ids:
            case["with_special"] = with_special
        made.append(case)
    return made


def assigned_ranges():
    ranges = []
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category in ("Cn", "Cs") or code in LATER_COMPOSED:
            continue
        if ranges and ranges[-1][1] == code:
            ranges[-1][1] = code + 1
        else:
            ranges.append([code, code + 1])
    return ranges


def block_hashes(ranges, cased):
    normalizer = normalizer_of(cased)
    words = BertPreTokenizer()
    hashes = {}
    for begin, end in ranges:
        for code in range(begin, end):
            text = normalizer.normalize_str("a" + chr(code) + "b")
            line = " ".join(word for word, _ in words.pre_tokenize_str(text)) + "\n"
            key = code // BLOCK
            hashes[key] = fnv(line.encode(), hashes.get(key, 0xCBF29CE484222325))
    return {str(key): f"{value:016x}" for key, value in hashes.items()}


def count_replaced(raw):
    return raw.decode(errors="replace").count("\ufffd") - raw.count("\ufffd".encode())


def make():
    ranges = assigned_ranges()
    golden = {"characters": ranges, "block": BLOCK,
              "replaced": [count_replaced(raw) for raw in NOT_UTF8],
              "not_utf8": [raw.hex() for raw in NOT_UTF8]}
    for name, cased in (("wordpiece", False), ("wordpiece-cased", True)):
        tokens = make_vocabulary(cased)
        golden[name] = {"tokens": tokens, "cases": cases(tokens, cased),
                        "blocks": block_hashes(ranges, cased)}
    return golden


def main():
    text = json.dumps(make(), ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    text = text.replace('{"hex"', '\n{"hex"') + "\n"
    if "--check" in sys.argv[1:]:
        if GOLDEN.read_text() != text:
            sys.exit(f"{GOLDEN} differs from what is made now")
        print(f"{GOLDEN} is what is made now")
        return
    GOLDEN.write_text(text)


main()
