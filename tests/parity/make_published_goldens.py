"""Writes published_golden.json: tokenizers with the structure of published ones, and their tokens.

    python make_published_goldens.py [--check] [--train]

Each tokenizer.json has the normalizer, pre-tokenizer, decoder, kind of model and added tokens of a
published model (ModernBERT, Llama 2 and 3, Qwen2 and 3, Mistral, Gemma, GPT-4o, SmolLM, DeepSeek-V3, T5, ALBERT,
XLM-RoBERTa) and a small vocabulary that is trained here, or by SentencePiece (sentencepiece_golden.json). For each text the file contains the tokens with special tokens as ordinary text ("ids"),
the tokens with special tokens recognized, if they differ, and the text of the latter if it is not the
text itself. For every code point, hashed by block, it contains texts with it after each normalizer, and the
words by each rule.

`--check` compares with the file instead of writing it. The tokenizers are those of the file, and new ones
are trained; `--train` trains all, with ties broken by chance.
"""

import base64
import json
import pathlib
import sys

from golden_texts import TEXTS, fnv
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

GOLDEN = pathlib.Path(__file__).parent / "published_golden.json"
BLOCK = 4096
MOST_SCRIPTS = 0x20000  # from here on, only the words by the first two rules, which takes a fourth of the time
MARK = "\u2581"

RULE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
RULES = {
    "qwen2": RULE.replace("DIGITS", r"\p{N}"),
    "llama3": RULE.replace("DIGITS", r"\p{N}{1,3}"),
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SUFFIX}"
             r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek3": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                 r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "digit": r"\p{N}",
    "digits3": r"\p{N}{1,3}",
    "cjk": "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
}

MORE_TEXTS = [
    "Cafe\u0301 caf\u00e9 \u1100\u1161\u11a8 \uac01 A\u030a \u212b \u0958 \ufb1d a\u0323\u0307 a\u0307\u0323 \u037e \u2126",
    "I'm YOU'RE he'S WE'VE they'LL SHE'D 'Sa ''s '\u017f x'\u017fy 'lL 'L 'r",
    "0 12 345 6789 12345678 1,234,567.89 \u0661\u0662\u0663\u0664 \u00bd\u00b2 3.14\n\n42 x1y22z333",
    "def f(x):\n    if x:\n\treturn {'a': [1, 2]}\r\n\r\n\n# ----\n   \n  end  \n",
    "a \n\n b\n \n c \r\n\r d\u00a0\n e\u3000\u3000f  ...\n\n ...\n?!\r\n\r\nx \t\t y",
    "one  two   three     six          ten                     twenty\n     \n",
    " leading", "trailing ", "  both  ", " ", "  ", "\n", " \n ", "\t", MARK, MARK + MARK + "x " + MARK,
    "[CLS] the [MASK] fox [SEP]the   [MASK][MASK] x[MASK]y [unused0][unused1] [PAD] \n[MASK] \u00a0[MASK]",
    "mail |||EMAIL_ADDRESS||| from |||IP_ADDRESS|||, call|||PHONE_NUMBER||||||IP_ADDRESS||| |||IP_",
    "<s>the</s> <s> the </s><unk> <pad>x<|begin_of_text|>hi<|eot_id|> <|end_of_text|>.<|end_of_text|",
    "<|im_start|>user\nHi<|im_end|>\n<think>\n\n</think> <tool_call> x</tool_call><|endoftext|>y",
    "``quoted'' '''' \u2033 \u00a8x \uff21\u0300 \ufdfa \u2581\u2581x  \u2581 y \u200b \x01\x02x\n \u3000",
    "\x01 a", " \u00a0b", "\r\n\r\nc", "\u0301d", "\ufeffe <mask> <extra_id_0>f<extra_id_1></s> [MASK]",
    "<bos>a<eos> <start_of_turn>user\n\n\nhi<end_of_turn>\n   \n <mask>",
    "wordy word words sword word. _word word1 (word) \u00e9word word\u00e9 word\u0301 word word",
    "left   LEFT   and   RIGHT   right RIGHT LEFT\n RIGHT \n   RIGHT  LEFT x",
    "\u2581the \u2581 fox\u2581\u2581jumps <0x41> <0x0A>\u2581",
    "\U0001f642\U0001f469\u200d\U0001f469 \u2603\ufe0f \u0e20\u0e32 \u72d0\u72d0 \U00020000 \x00\x07",
]
LONG = ["the quick brown fox " * 30, "a" * 300, " " * 130 + "x", "\u72d0" * 50, "=" * 150]
CASES = [text for text in TEXTS if len(text) < 200] + MORE_TEXTS + LONG


def added(content, special=True, normalized=False, **more):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": normalized, "special": special, **more}


def byte_level(rule, vocab_size=450):
    """A trained BPE model of bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split_of(rule)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXTS + MORE_TEXTS, trainer)
    return json.loads(tokenizer.to_str())["model"]


def split_of(rule):
    if rule == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if rule == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    rules = ["digits3", "cjk", "deepseek3"] if rule == "deepseek3" else [rule]
    splits = [pre_tokenizers.Split(Regex(RULES[name]), "isolated", False) for name in rules]
    return pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def characters(first, vocab_size=420):
    """A trained BPE model of characters and bytes, numbered like SentencePiece's."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, limit_alphabet=110)
    tokenizer.train_from_iterator(TEXTS + MORE_TEXTS, trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    names = first + [f"<0x{byte:02X}>" for byte in range(256)]
    # Runs of spaces are tokens in such vocabularies.
    merges = [pair for pair in trained["merges"]] + [[MARK, MARK], [MARK * 2, MARK * 2]]
    names += [a + b for a, b in merges]
    names += [token for token in trained["vocab"] if token not in names]
    names = list(dict.fromkeys(names))
    return {"type": "BPE", "dropout": None, "unk_token": first[0], "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
            "ignore_merges": False, "vocab": {name: i for i, name in enumerate(names)},
            "merges": merges}


def sentencepiece_unigram():
    """The unigram model of sentencepiece_golden.json, and its rules for characters."""
    from sentencepiece import sentencepiece_model_pb2
    golden = json.loads((pathlib.Path(__file__).parent / "sentencepiece_golden.json").read_text())
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(base64.b64decode(golden["unigram"]["model"]))
    vocab = [[piece.piece, piece.score] for piece in proto.pieces]
    rules = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return ({"type": "Unigram", "unk_id": proto.trainer_spec.unk_id, "vocab": vocab, "byte_fallback": False},
            {"type": "Precompiled", "precompiled_charsmap": rules})


def trained_unigram(special, vocab_size=300):
    """A unigram model trained by `tokenizers`."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=vocab_size, show_progress=False,
                                      special_tokens=special, unk_token=special[0])
    texts = [text for text in TEXTS + MORE_TEXTS if text.isascii() and "<" not in text]
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())["model"]


def with_bytes(model):
    """The same model with a piece for each byte, and without half of the others."""
    pieces = model["vocab"][:3] + [[f"<0x{byte:02X}>", 0.0] for byte in range(256)] + model["vocab"][3::2]
    return {**model, "vocab": pieces, "byte_fallback": True}


def template(before, after, vocab):
    tokens = before + after
    special = [{"SpecialToken": {"id": name, "type_id": 0}} for name in tokens]
    single = special[: len(before)] + [{"Sequence": {"id": "A", "type_id": 0}}] + special[len(before):]
    return {"type": "TemplateProcessing", "single": single,
            "pair": single + [{"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {name: {"id": name, "ids": [vocab[name]], "tokens": [name]}
                               for name in tokens}}


def file_of(model, tokens, normalizer, pre_tokenizer, decoder, before=(), after=()):
    """A tokenizer.json; tokens that the vocabulary lacks come last."""
    vocab = model["vocab"]
    ids = dict(vocab) if isinstance(vocab, dict) else {piece: i for i, (piece, _) in enumerate(vocab)}
    for token in tokens:
        ids.setdefault(token["content"], len(ids))
    listed = sorted(({"id": ids[token["content"]], **token} for token in tokens),
                    key=lambda token: token["id"])
    post = template(list(before), list(after), ids) if before or after else None
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": listed,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post,
            "decoder": decoder, "model": model}


def part(value):
    """The JSON of a part of a tokenizer."""
    return json.loads(value.__getstate__().decode())


def tokenizers():
    to_bytes = part(decoders.ByteLevel())
    nfc = {"type": "NFC"}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    back = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    sequence = {"type": "Sequence", "decoders": back + strip}
    legacy = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, space]}
    old = ["<unk>", "<s>", "</s>"]

    t5, rules = sentencepiece_unigram()
    names = {piece for piece, _ in t5["vocab"]}
    trained = trained_unigram(old)
    squeeze = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    ends = {"type": "Replace", "pattern": {"Regex": r"\A +| +\z"}, "content": ""}
    quotes = [{"type": "Replace", "pattern": {"String": text}, "content": '"'} for text in ("``", "''")]
    plain = [{"type": name} for name in ("NFKD", "StripAccents", "Lowercase")]
    words = part(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))
    metaspace = part(decoders.Metaspace())
    known = [added(name) for name in ("<pad>", "<unk>", "<s>", "</s>", "[CLS]", "[SEP]") if name in names]

    def sequence_of(steps):
        return {"type": "Sequence", "normalizers": steps}

    modernbert = byte_level("gpt2")
    modern = [added("|||IP_ADDRESS|||", False, True), added("<|padding|>")]
    names = [token["content"] for token in modern] + list(modernbert["vocab"])
    modernbert["vocab"] = {name: i for i, name in enumerate(names)}
    modern += [added(" " * n, False, True) for n in range(24, 1, -1)]
    modern += [added("|||EMAIL_ADDRESS|||", False, True), added("|||PHONE_NUMBER|||", False, True)]
    modern += [added("<|endoftext|>"), added("[UNK]"), added("[CLS]"), added("[SEP]"), added("[PAD]"),
               added("[MASK]", lstrip=True)]
    modern += [added(f"[unused{i}]", False, True) for i in range(2)]

    llama3 = byte_level("llama3")
    llama3["merges"] = llama3["merges"][:-40]  # words that only ignore_merges finds
    llama3["ignore_merges"] = True
    qwen2 = byte_level("qwen2")
    chat = [added(name) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    thinks = [added(name, False) for name in ("<tool_call>", "</tool_call>", "<think>", "</think>")]
    gemma = [added(name) for name in ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>",
                                      "<end_of_turn>")]
    gemma += [added(name, False) for name in ("\n", "\n\n", "\n\n\n", MARK * 2, MARK * 4)]
    odd = chat + [added("word", False, True, single_word=True), added("LEFT", False, lstrip=True),
                  added("RIGHT", False, True, rstrip=True), added("br\u00fbl\u00e9e \u00e0", False, True)]
    return {
        "modernbert": file_of(modernbert, modern, nfc, part(split_of("gpt2")), to_bytes,
                              ["[CLS]"], ["[SEP]"]),
        "llama3": file_of(llama3, [added(name) for name in (
            "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>")], None, part(split_of("llama3")),
            to_bytes, ["<|begin_of_text|>"]),
        "qwen2": file_of(qwen2, chat, nfc, part(split_of("qwen2")), to_bytes),
        "qwen3": file_of(qwen2, chat + thinks, {"type": "Sequence", "normalizers": [nfc]},
                         part(split_of("qwen2")), to_bytes),
        "llama2": file_of(characters(old), [added(name) for name in old], legacy, None, sequence,
                          ["<s>"]),
        "llama2 with normalized tokens": file_of(
            characters(old), [added(name, True, True) for name in old], legacy, None, sequence, ["<s>"]),
        "mistral": file_of(characters(old), [added(name) for name in old], None, part(
            pre_tokenizers.Metaspace(prepend_scheme="first", split=False)), sequence, ["<s>"]),
        "words with a mark": file_of(characters(old), [added(name) for name in old], nfc, part(
            pre_tokenizers.Metaspace(prepend_scheme="always", split=True)), sequence, ["<s>"]),
        "gemma": file_of(characters(["<pad>", "<eos>", "<bos>", "<unk>"]), gemma, space, part(
            pre_tokenizers.Split(" ", "merged_with_previous", False)),
            {"type": "Sequence", "decoders": back}, ["<bos>"]),
        "t5": file_of(t5, known + [added(f"<extra_id_{i}>") for i in range(3)], rules, words, metaspace,
                      after=["</s>"]),
        "albert": file_of(t5, known + [added("[MASK]", lstrip=True)], sequence_of(quotes + plain + [rules, squeeze]),
                          words, metaspace, ["[CLS]"], ["[SEP]"]),
        "xlm-roberta": file_of(
            t5, known + [added("word", False, True, single_word=True), added("<mask>", lstrip=True)],
            sequence_of([rules, {"type": "Strip", "strip_left": False, "strip_right": True},
                         {**squeeze, "content": MARK}]),
            part(pre_tokenizers.Metaspace(prepend_scheme="first")), part(decoders.Metaspace(prepend_scheme="first"))),
        "unigram": file_of(trained, [added(name) for name in old],
                           sequence_of([{"type": "Nmt"}, {"type": "NFKC"}, squeeze]),
                           part(pre_tokenizers.Metaspace()), metaspace),
        "unigram with bytes": file_of(
            with_bytes(trained), [added(name) for name in old],
            sequence_of([ends, squeeze, space, {"type": "Replace", "pattern": {"Regex": "\\A" + MARK},
                                                "content": MARK * 2}]),
            part(pre_tokenizers.Metaspace(split=False)), sequence),
        "odd added tokens": file_of(qwen2, odd, nfc, part(split_of("llama3")), to_bytes),
        **{name: file_of(byte_level(rule, 350), chat[:1], None, part(split_of(rule)), to_bytes)
           for name, rule in (("gpt-4o", "o200k"), ("smollm", "smollm"), ("deepseek-v3", "deepseek3"))},
    }


def without_special(file):
    """A unigram tokenizer that has no way to write special tokens, which its pieces have otherwise."""
    special = {token["content"] for token in file["added_tokens"] if token["special"]}
    vocab = [[f"\ufdd0{i}" if piece in special else piece, score]
             for i, (piece, score) in enumerate(file["model"]["vocab"])]
    return {**file, "model": {**file["model"], "vocab": vocab}, "post_processor": None,
            "added_tokens": [token for token in file["added_tokens"] if not token["special"]]}


def cases(file):
    tokenizer = Tokenizer.from_str(json.dumps(file))
    plain = tokenizer
    if file["model"]["type"] == "Unigram":
        plain = Tokenizer.from_str(json.dumps(without_special(file)))
    special = {token["id"] for token in file["added_tokens"] if token["special"]}
    made = []
    for text in CASES:
        plain.encode_special_tokens = True  # what stands in the text is text
        ids = plain.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        with_special = tokenizer.encode(text, add_special_tokens=False).ids
        case = {"ids": ids}
        if with_special != ids:
            case["with_special"] = with_special
        # `tokenizers` does not skip special tokens whose normalized form differs.
        decoded = tokenizer.decode([token for token in with_special if token not in special])
        if decoded != text:
            case["decoded"] = decoded
        made.append(case)
    return made


def block_hashes():
    forms = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Nmt(),
             normalizers.Lowercase(), normalizers.StripAccents()]
    splits = [pre_tokenizers.Split(Regex(rule), "isolated", False) for rule in RULES.values()]
    hashes = {}
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        if code == MOST_SCRIPTS:
            splits = splits[:2]
        c = chr(code)
        marked = f"{c}a{c}\u0301e\u0301{c} o\u0323{c}\u0323{c}\u0338{c}\u3099"
        lines = [form.normalize_str(marked) for form in forms]
        text = f"a{c}b1{c}23{c}4567!{c}? {c}{c}  {c}\n{c} '{c}s'{c}\r\n \n{c}\n"
        for split in splits:
            lines.append(",".join(str(len(piece.encode())) for piece, _ in split.pre_tokenize_str(text)))
        hashes[code // BLOCK] = fnv(("\n".join(lines) + "\n").encode(),
                                    hashes.get(code // BLOCK, 0xCBF29CE484222325))
    return {str(key): f"{value:016x}" for key, value in hashes.items()}


def main():
    checks = "--check" in sys.argv[1:]
    files = tokenizers()
    if "--train" not in sys.argv[1:]:
        stored = json.loads(GOLDEN.read_text())["tokenizers"]
        files.update({item["name"]: item["tokenizer.json"] for item in stored})
    made = {"texts": CASES, "block": BLOCK, "blocks": block_hashes(), "tokenizers": []}
    for name, file in files.items():
        made["tokenizers"].append({"name": name, "tokenizer.json": file, "cases": cases(file)})
    text = json.dumps(made, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    text = text.replace('{"cases"', '\n{"cases"') + "\n"
    if checks:
        if GOLDEN.read_text() != text:
            sys.exit(f"{GOLDEN} differs from what is made now")
        print(f"{GOLDEN} is what is made now")
        return
    GOLDEN.write_text(text)


main()
