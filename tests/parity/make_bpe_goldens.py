"""Writes bpe_golden.json: the tokens that the Python package `tokenizers` produces with byte-level BPE.

    python make_bpe_goldens.py [--check]

A small vocabulary is trained on the texts. The file contains it as vocab.json, merges.txt and
tokenizer.json, and for each text the tokens, without and with a space in front. The package accepts
only UTF-8. Each invalid byte is therefore replaced by a private-use character, which is also neither a
letter, a number nor a space, while the text is split into words; the model then gets the bytes of the
words. For every code point, hashed by block, the file contains the words of a text that has it in
several places. For WordPiece it contains a tokenizer.json, and the tokens for all settings of case and
accents of BertNormalizer.

`--check` compares with the file instead of writing it.
"""

import json
import pathlib
import sys

from golden_texts import NOT_UTF8, TEXTS, fnv
from tokenizers import AddedToken, BertWordPieceTokenizer, ByteLevelBPETokenizer, Tokenizer
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import ByteLevel

FOLDER = pathlib.Path(__file__).parent
GOLDEN = FOLDER / "bpe_golden.json"
BLOCK = 4096
SPECIAL = ["<|endoftext|>", "<mask>", "<mask>>"]

MORE_TEXTS = [
    "I'm you're he's we've they'll she'd don't I'M YOU'RE HE'S WE'VE THEY'LL SHE'D DON'T I’m don’t",
    "'s 't 're 've 'm 'll 'd ''s '''ll 'sa 'rex 'r 'v 'l a'b 'S\u0301 's\u0301 \n's \t'd  'm ' s",
    "a\u00a0b \u00a0 c\u3000d\u3000\u3000e \u3000f\u2028g\u2029\u2029h\u0085i\u0085\u0085 j\u1680k\u2000\u200al\u202fm\u205fn",
    "one\r\ntwo\r\n\r\nthree\n\n\nfour\r\rfive \n six\n  seven\t\teight \t nine\v\ften   \n",
    "\n", "  ", "\n\n", " \n", "\r\n", "   x", "x   ", "\u3000", "\x00\x01\x1c\x1d\x1e\x1f\x7f", "\ufeff\ufeffa \ufeff",
    "12 345 1,234.5 ١٢٣ ۴۵۶ १२३ ௧௨௩ ๑๒๓ Ⅻ ½ ² ① 𝟙𝟚 𐒠𐒡 一二三 x1y2 3z",
    "def f(x):\n    if x:\n        return {'a': [1, 2]}\n\n\n# ------------------------------------\n",
    "=" * 3000, "a" * 3000, "ab" * 700, " " * 777 + "x", "\n" * 500, "狐" * 400, "😀" * 300, "the" * 200, "9" * 999,
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|> c<|endoftext|><|endoftext|>", "<|endoftext|",
    "the <mask> fox <mask>, \n<mask>  <mask>>x<mask>>> <mask", "the fox\u3000\u00a0 <mask> <|endoftext|>the",
]
MORE_NOT_UTF8 = [
    bytes(range(256)), bytes(reversed(range(256))), b"\xff" * 300, b"\xe7\x8b\x90\xe7\x8b \xe7 \x8b\x90\xe7\x8b\x90",
    b"it'\xffs \xff's\xff 's \xc2\xa0\xc2 \xe3\x80 \xe3\x80\x80x \xed\xa0\x80 \xf4\x90\x80\x80",
]
ALL = [text.encode() for text in TEXTS + MORE_TEXTS] + NOT_UTF8 + MORE_NOT_UTF8


def make_tokenizer():
    """Like GPT-2's: special tokens come last in the vocabulary."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(TEXTS + MORE_TEXTS[:12], vocab_size=900, min_frequency=2,
                                show_progress=False)
    saved = json.loads(trained.to_str())
    for name in SPECIAL:
        saved["model"]["vocab"][name] = len(saved["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tokenizer.add_special_tokens([AddedToken(name, lstrip=name == "<mask>", normalized=False)
                                  for name in SPECIAL])
    return tokenizer


ALPHABET = dict(zip(
    list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100)) +
    list(range(0x21)) + list(range(0x7F, 0xA1)) + [0xAD],
    [chr(c) for c in list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x144))]))
PRIVATE = 0xF700  # U+F780 to U+F7FF stand for the bytes that are not UTF-8


def ids_by_hand(tokenizer, raw, add_prefix_space):
    """Tokenizes word by word, for text that is not UTF-8."""
    text = "".join(chr(PRIVATE + ord(c) - 0xDC00) if 0xDC80 <= ord(c) <= 0xDCFF else c
                   for c in raw.decode(errors="surrogateescape"))
    if add_prefix_space and text and text[0] != " ":
        text = " " + text
    ids = []
    for _, (begin, end) in ByteLevel(add_prefix_space=False).pre_tokenize_str(text):
        word = b"".join(bytes([ord(c) - PRIVATE]) if 0x80 <= ord(c) - PRIVATE <= 0xFF else c.encode()
                        for c in text[begin:end])
        ids += [token.id for token in tokenizer.model.tokenize("".join(ALPHABET[b] for b in word))]
    return ids


def cases(tokenizer):
    made = []
    for raw in ALL:
        case = {"hex": raw.hex()}
        for key, add_prefix_space in (("ids", False), ("prefixed", True)):
            ids = ids_by_hand(tokenizer, raw, add_prefix_space)
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                case[key] = ids
                continue
            tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=add_prefix_space)
            tokenizer.encode_special_tokens = True  # what stands in the text is text
            case[key] = tokenizer.encode(text, add_special_tokens=False).ids
            assert case[key] == ids, text
            tokenizer.encode_special_tokens = False
            with_special = tokenizer.encode(text, add_special_tokens=False).ids
            if with_special != ids:
                case[key + "_with_special"] = with_special
        made.append(case)
    return made


def block_hashes():
    words = ByteLevel(add_prefix_space=False)
    hashes = {}
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        c = chr(code)
        pieces = words.pre_tokenize_str(f"a{c}b1{c}2!{c}? {c}{c}  {c} '{c}s'{c}")
        line = ",".join(str(len(piece)) for piece, _ in pieces) + "\n"
        hashes[code // BLOCK] = fnv(line.encode(), hashes.get(code // BLOCK, 0xCBF29CE484222325))
    return {str(key): f"{value:016x}" for key, value in hashes.items()}


def wordpiece():
    vocabularies = json.loads((FOLDER / "wordpiece_golden.json").read_text())
    tokens = vocabularies["wordpiece-cased"]["tokens"]
    tokens += sorted(set(vocabularies["wordpiece"]["tokens"]) - set(tokens))
    tokenizer = BertWordPieceTokenizer({token: i for i, token in enumerate(tokens)})
    made = {"tokenizer.json": json.loads(tokenizer.to_str()), "cases": []}
    tokenizer._tokenizer.encode_special_tokens = True
    for lowercase in (False, True):
        for strip_accents in (None, False, True):
            tokenizer.normalizer = BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
            made["cases"].append({
                "lowercase": lowercase, "strip_accents": strip_accents,
                "ids": [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]})
    made["texts"] = [text.encode().hex() for text in TEXTS]
    return made


def make():
    tokenizer = make_tokenizer()
    saved = json.loads(tokenizer.to_str())
    merges = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in saved["model"]["merges"])
    return {"vocab.json": saved["model"]["vocab"], "merges.txt": merges, "tokenizer.json": saved,
            "cases": cases(tokenizer), "block": BLOCK, "blocks": block_hashes(),
            "wordpiece": wordpiece()}


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
