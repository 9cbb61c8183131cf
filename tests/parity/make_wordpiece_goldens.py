"""Writes wordpiece_golden.json: what the Python package `tokenizers` makes of a varied text.

    python make_wordpiece_goldens.py [--check]

Two small vocabularies are made of the texts below, uncased and cased. Of each text the file holds
the tokens in both, and how they are shown again. Text that is not UTF-8 is decoded with
errors="replace" first, as Python programs do. For the characters of Unicode 14, block by block, it
holds a hash of the words that "a" + character + "b" falls into.

`--check` compares with the file instead of writing it.
"""

import json
import pathlib
import sys
import unicodedata

from tokenizers import BertWordPieceTokenizer
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

GOLDEN = pathlib.Path(__file__).parent / "wordpiece_golden.json"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BLOCK = 4096
# `tokenizers` has normalization tables of an earlier Unicode, in which this vowel is not composed.
LATER_COMPOSED = {0x11938}

TEXTS = [
    "",
    " ",
    "The quick brown fox jumps over the lazy dog; the dog sleeps on. The fox doesn't!",
    "Unaffable UNAFFABLE unaffable, running runner runs -- re-run; it's John's, isn't it?",
    "Crème brûlée à la carte, naïve façade, Ångström, Łódź, İstanbul, ıssız, Straße, ǅ, ﬁne",
    "Cre\u0300me bru\u0302le\u0301e: a\u0323\u0307 and a\u0307\u0323; e\u0301\u0301\u0301",
    "Ελληνικά: Η γρήγορη αλεπού, ΟΔΥΣΣΕΥΣ; ώ Ώ ά",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ЁЖИК Йод",
    "השועל החום המהיר; שָׁלוֹם עֲלֵיכֶם",
    "الثعلب البني السريع، مُحَمَّد؟ كتاب‌ها",
    "तेज़ भूरी लोमड़ी। हिन्दी क्षेत्र ज़्यादा",
    "ภาษาไทย สุนัขจิ้งจอกสีน้ำตาล กระโดด",
    "敏捷的棕色狐狸跳过了懒狗。中文和English混排,第1章",
    "すばやい茶色の狐が、のろまな犬を飛び越える。カタカナ ﾊﾝｶｸ がぎぐ",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다. 한국어 각",
    "豈更車 \U0002f800\U00020000\U0002b820\U0002b920 \u3400",
    "👍🏽 😀😀 👩‍👩‍👧‍👦 🇩🇪 ☃️ a😀b ©®™ €5 £3 ¥7",
    "tabs\tand\nlines\r\nand\vothers\f; nbsp\u00a0em\u2003line\u2028para\u2029ideographic\u3000end",
    "zero\u200bwidth soft\u00adhyphen bom\ufeff nul\u0000l bell\u0007 esc\u001b[0m c1\u0085 \ufffd x\u202ey",
    "a" * 100 + " " + "a" * 101 + " " + "é" * 100 + " " + "é" * 101 + " " + "狐" * 120,
    "x" * 5000,
    "     many      spaces     \n\n\n\n   and lines   ",
    "$%^&*()_+|~-=`{}[]:\";'<>?,./ 1+1=2 a_b a^b `code` <tag/> #hash ## ##ing @me",
    "“quotes” ‘single’ «guillemets» … – — ― ‐ ¿qué? ¡no! · ؟ 。 、 ！ ａｂｃ ＡＢＣ １２３",
    "[CLS] the [MASK] fox [SEP] [PAD] [UNK] [mask] [MASK][MASK] x[MASK]y [ MASK ]",
    "https://example.org/a/b?c=d&e=f#g user@example.org 3.14159 1,000,000 12:34 2024-01-31",
    "don't won't can't it's I'm they've we're he ' s do n't a . b , c ! d ?",
    "ẞ ß ŉ ǰ ΐ ﬀ Ⅷ ⅷ ① ² ½ Å Ω ẛ̣ Ḍ̇ q̣̇",
    "𝕳𝖊𝖑𝖑𝖔 𐐀𐐨 𒀀 𞤀𞤢 \U0010ffff \ue000 \U000e0001 \u0378",
    "mixed中文and日本語withoutspaces한국어और हिन्दी",
    "\u0301leading mark, lone \u0301 mark, (\u0301 after punctuation, 狐\u0301 after ideograph",
]
NOT_UTF8 = [
    b"caf\xe9 ol\xe9",
    b"cut \xe2\x82 short \xf0\x9f\x98 \xf0\x9f",
    b"over\xc0\xafong \xe0\x80\xaf sur\xed\xa0\x80rogate \xf4\x90\x80\x80 \xff\xfe \x80\x80",
    b"ends in \xe2\x82",
    b"\xf0\x9f\x98\x80\xf0\x9f\x98fox\xc3",
]


def normalizer_of(cased):
    return BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None,
                          lowercase=not cased)


def make_vocabulary(cased):
    """Of words of the first texts some as a whole, of all their characters and longer pieces."""
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


def fnv(data, value=0xCBF29CE484222325):
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


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
