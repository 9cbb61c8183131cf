"""Compares the tokens of conversations, and which of them are learned, with transformers for made-up chat templates.

    python fuzz_chat.py TESSERA [--cases N] [--seed SEED]

Templates have up to three special tokens and pieces of text in every place: at the start, before and after the texts of
each role, and at the end of a prompt. Tokenizers are BPE of bytes and of characters, WordPiece and SentencePiece, some
with tokens that absorb white space. A template that `tessera import` refuses is counted; one that it accepts must have the tokens of
apply_chat_template(), of which those after the prompt, up to the first special token behind the reply, are learned.
Where a token of the reply takes in the end of the prompt, only the prompt is compared. Needs no torch.
"""

import argparse
import io
import json
import pathlib
import random
import subprocess
import tempfile

import numpy as np
import sentencepiece
from safetensors.numpy import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

TEXT = ["user: assistant: system Hello there, who is it? 1234 née 狐 [INST] it's\n\n  fine.\n"] * 4
TURNS = ["Hi there", "née 狐", "12 345", "a\n\n b", "it's \n"], ["Hello", "1234!", "née  x", "a\n\nb"]
MARK = "▁"
CHAT = ["<s>", "</s>", "<|a|>", "<|b|>", "<|end|>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def byte_level(split):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = split, decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False))
    return tokenizer


def characters(normalizer, pre_tokenizer):
    tokens = ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)] + [MARK, *"Helothrwias", MARK + "H", "He", "el"]
    merges = [(MARK, "H"), ("H", "e"), ("e", "l")]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges, unk_token="<unk>", byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=150, special_tokens=BERT, show_progress=False))
    return tokenizer


def made_sentencepiece(rng, folder):
    """Saves a model, mostly like Llama's, and the settings of its class, and returns what transformers reads."""
    odd = rng.choice([None] * 4 + ["unigram", "nmt_nfkc", "spaces", "prefix", "bytes", "class", "legacy", "default legacy"])
    out, symbols = io.BytesIO(), rng.choice(["control_symbols", "user_defined_symbols"])
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter("".join(TEXT).split("\n")), model_writer=out, minloglevel=2, hard_vocab_limit=False,
        vocab_size=110 if odd == "bytes" else 370, model_type="unigram" if odd == "unigram" else "bpe",
        normalization_rule_name="nmt_nfkc" if odd == "nmt_nfkc" else "identity", remove_extra_whitespaces=odd == "spaces",
        add_dummy_prefix=odd != "prefix", byte_fallback=odd != "bytes", **{symbols: CHAT[2:]})
    (folder / "tokenizer.model").write_bytes(out.getvalue())
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": odd == "legacy"}
    if odd not in ("class", "unigram"):
        settings["tokenizer_class"] = "LlamaTokenizer"
    if odd == "default legacy":
        del settings["legacy"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return f"sentencepiece, {odd or symbols}", AutoTokenizer.from_pretrained(folder), CHAT


def made_tokenizer(rng, folder):
    """The name of a kind, a tokenizer, and the special tokens that templates have."""
    rule = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    legacy = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    split = pre_tokenizers.Split(Regex(rule), "isolated")
    kind = rng.randrange(6)
    if kind == 5:
        return made_sentencepiece(rng, folder)
    if kind == 0:
        return "wordpiece", PreTrainedTokenizerFast(tokenizer_object=wordpiece()), BERT[2:]
    made = [
        lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        lambda: byte_level(pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])),
        lambda: characters(None, pre_tokenizers.Metaspace(prepend_scheme=rng.choice(["first", "always"]), split=False)),
        lambda: characters(legacy, None),
    ][kind - 1]()
    strips = rng.random() < 0.4
    for token in CHAT:
        left, right = (strips and rng.random() < 0.3 for _ in range(2))
        made.add_special_tokens([AddedToken(token, lstrip=left, rstrip=right, normalized=False)])
    name = ["bytes", "split", "metaspace", "legacy"][kind - 1] + (" strips" if strips else "")
    return name, PreTrainedTokenizerFast(tokenizer_object=made), CHAT


def pieces(rng, special, most=3, texts=("\n", " ", "user", "say:\n", "[INST]")):
    return [rng.choice(special) if rng.random() < 0.6 else rng.choice(texts) for _ in range(rng.randint(0, most))]


def made_template(rng, special):
    """A template, what precedes the text of a reply and is not in its prompt, and the token that ends a reply."""
    before, after = ({role: pieces(rng, special) for role in ("system", "user", "assistant")} for _ in range(2))
    before["assistant"] = before["assistant"] or [rng.choice(special)]
    end = rng.choice(special)
    after["assistant"] = rng.choice([[], [], ["\n"], [" "]]) + [end] + pieces(rng, special, 1)
    given = before["assistant"][: rng.randint(0, len(before["assistant"]))]
    turn = "".join(
        f"{{% if m.role == '{role}' %}}{{{{ {json.dumps(''.join(before[role]))} + m.content + "
        f"{json.dumps(''.join(after[role]))} }}}}{{% endif %}}"
        for role in before
    )
    jinja = (
        f"{{{{ {json.dumps(''.join(pieces(rng, special, 2)))} }}}}{{% for m in messages %}}{turn}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{{{{ {json.dumps(''.join(given))} }}}}{{% endif %}}"
    )
    return jinja, before["assistant"][len(given) :], end


def save_model(folder, vocab_size):
    weights, hidden = {}, 8
    shapes = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (8, 8), "self_attn.v_proj": (8, 8), "self_attn.o_proj": (8, 8)}
    shapes |= {"mlp.gate_proj": (16, 8), "mlp.up_proj": (16, 8), "mlp.down_proj": (8, 16)}
    shapes |= {"input_layernorm": (8,), "post_attention_layernorm": (8,)}
    for name, shape in shapes.items():
        weights[f"model.layers.0.{name}.weight"] = np.zeros(shape, np.float32)
    weights["model.norm.weight"] = np.zeros(hidden, np.float32)
    weights["model.embed_tokens.weight"] = weights["lm_head.weight"] = np.zeros((vocab_size, hidden), np.float32)
    save_file({name: value.copy() for name, value in weights.items()}, folder / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": 1}
    config |= {"intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": vocab_size}
    config |= {"max_position_embeddings": 256, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))


def expected_of(theirs, messages, begin, end):
    """The tokens of a conversation and which are learned; None if a reply takes in the end of its prompt."""
    ids = theirs.apply_chat_template(messages, return_dict=True)["input_ids"]
    end_id, learned, last = theirs.convert_tokens_to_ids(end), [False] * len(ids), 0
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt = theirs.apply_chat_template(messages[:i], add_generation_prompt=True, return_dict=True)["input_ids"]
        if ids[: len(prompt)] != prompt:
            return None
        last = len(prompt)
        for _ in range(begin.count(end) + 1):
            last = ids.index(end_id, last) + 1
        learned[len(prompt) : last] = [True] * (last - len(prompt))
    return ids[:last], learned[:last]


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def check_case(tessera, folder, seed):
    rng = random.Random(seed)
    kind, theirs, special = made_tokenizer(rng, folder)
    jinja, begin, end = made_template(rng, special)
    theirs.chat_template = jinja
    if kind.startswith("sentencepiece"):
        (folder / "chat_template.jinja").write_text(jinja)
    else:
        theirs.save_pretrained(folder)
    save_model(folder, len(theirs))
    code, notes = run(tessera, "import", folder, "--to", folder / "run")
    assert code == 0, notes
    if "chat template cannot be used" in notes:
        return "refused: " + kind
    for roles in (("user", "assistant"), ("system", "user", "assistant", "user", "assistant")):
        said = [(role, rng.choice(TURNS[role == "assistant"])) for role in roles]
        messages = [{"role": role, "content": text} for role, text in said]
        expected = expected_of(theirs, messages, begin, end)
        if expected is None:
            noted = "token of the reply may take in" in notes  # by a probe, whose first letter may join nothing
            return ("boundary: " if noted else "boundary without a note: ") + kind
        (folder / "m.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
        (folder / "d.safetensors").unlink(missing_ok=True)
        code, output = run(tessera, "eval", folder / "run", "--data", folder / "m.jsonl", "--dump", folder / "d.safetensors")
        assert code == 0, f"{kind}: {jinja!r}: {output}"
        found = load_file(folder / "d.safetensors")
        ids, targets = found["tokens"].tolist(), found["targets"].tolist()
        ours = ids + [targets[-1]], [False] + [target >= 0 for target in targets]
        if ours != expected and "token of the reply may take in" in notes:
            return "boundary: " + kind
        assert ours == expected, f"{kind}: {jinja!r}: {messages}\n{ours}\n{expected}"
    return "equal: " + kind


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tessera")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts = {}
    for seed in range(options.seed, options.seed + options.cases):
        with tempfile.TemporaryDirectory() as folder:
            try:
                result = check_case(options.tessera, pathlib.Path(folder), seed)
            except AssertionError as error:
                raise SystemExit(f"seed {seed}: {error}")
            counts[result] = counts.get(result, 0) + 1
    for result, count in sorted(counts.items()):
        print(f"{count:5}  {result}")


main()
