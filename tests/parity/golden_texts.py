"""Varied texts for comparing tokenizers, and a hash for results that are too large to store."""

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


def fnv(data, value=0xCBF29CE484222325):
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value
