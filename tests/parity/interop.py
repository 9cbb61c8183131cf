"""Compares `tessera export` and `tessera import` with Hugging Face's transformers.

    python tests/parity/interop.py [--build build/cpu]

For each kind of model, with a vocabulary trained on this repository's own text:

1. text, `tessera prepare`, a short `tessera train`, `tessera export`: transformers loads the folder
   without missing or unexpected weights, computes the same loss on the same tokens, and its tokenizer
   produces the same tokens. A decoder continues a text as `tessera generate --temperature 0` does and
   gives the choices of questions the log-likelihoods of `tessera eval --multiple-choice`, a T5 writes
   the same target, and a classifier of words labels them as `tessera classify` does.
   Low-rank adapters are trained on it, of decoders with the embeddings and the head. Their export has the same
   loss, merged or loaded by PEFT beside the export of the base, and imported again. So do adapters, with whole
   modules, that PEFT made.
2. A transformers model with random normal parameters, `tessera import`, `tessera eval`: the loss is the
   same, a decoder continues a text and answers questions and a T5 writes a target alike. `tessera export` of the import
   has the same weights.
   Messages have the same tokens as with the chat template of the transformers model.
3. The tokenizers of published_golden.json, saved by transformers: `tessera prepare` produces the same
   tokens, and so does what `tessera export` writes of an import, with special tokens, too.

Losses, both in float32, must agree to 1e-5. Prints a line for each check and exits with 1 at the first
failure.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import peft
import sentencepiece
import torch
import transformers
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
    ModernBertForTokenClassification,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-5
SEED = 5
VOCABULARY = 500
SEQ_LENGTH = 64
SENTINELS = 20

MODEL = f"""
model:
  num_layers: 2
  hidden_size: 48
  mlp_size: 160
  seq_length: {SEQ_LENGTH}
  init_stddev: 0.1
"""
RUN = """
batch: {global: 8, micro: 4}
train: {steps: 40}
optimizer: {lr: 0.003, warmup_steps: 5}
log: {interval: 20}
"""

# Several scripts, emoji, white space and case; one text per line.
TEXTS = [
    "The quick brown fox isn't lazy, is it?",
    "  two  spaces,\ttabs and trailing ones  ",
    "Crème brûlée à la carte, naïve façade — “quoted”…",
    "Привет, мир! Καλημέρα κόσμε. שלום עולם. مرحبا بالعالم",
    "日本語のテキスト と 中文字符 和 한국어",
    "emoji 🙂👩‍👩‍👧‍👦🏳️‍🌈 and math ∑x² ≤ √2",
    "x = {'a': [1, 2.5e-3], \"b\": null}; // code_like->text && 0xFF",
    "a" * 150 + " 1234567890 " * 5,
]


class Kind:
    """A model to compare: Tessera's configuration, and the class and configuration in transformers."""

    def __init__(self, name, tokenizer, model, data, theirs, config):
        self.name, self.tokenizer, self.model, self.data = name, tokenizer, model, data
        self.theirs, self.config = theirs, config


def bert_config(**more):
    return BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=160,
        max_position_embeddings=SEQ_LENGTH,
        **more,
    )


def roberta_config(**more):
    return RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=160,
        pad_token_id=0,  # that of the vocabulary, after which positions are counted
        max_position_embeddings=SEQ_LENGTH + 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        **more,
    )


def modernbert_config(**more):
    return ModernBertConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=160,
        max_position_embeddings=SEQ_LENGTH,
        local_attention=16,
        pad_token_id=0,
        **more,
    )


def gpt2_config(vocab_size):
    return GPT2Config(
        vocab_size=vocab_size,
        n_positions=SEQ_LENGTH,
        n_embd=48,
        n_layer=2,
        n_head=3,
        n_inner=160,
        bos_token_id=vocab_size - 1,
        eos_token_id=vocab_size - 1,
    )


def llama_config(make, **more):
    return make(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        intermediate_size=160,
        max_position_embeddings=SEQ_LENGTH,
        **more,
    )


def t5_config(**more):
    return T5Config(
        vocab_size=VOCABULARY + SENTINELS,
        d_model=48,
        d_kv=12,  # heads wider than the model
        d_ff=160,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=6,
        n_positions=SEQ_LENGTH,
        relative_attention_max_distance=32,
        **more,
    )


def kinds():
    llama = "  num_heads: 6\n  num_kv_heads: 2\n"
    bert = "  num_heads: 3\n  kind: bert\n  norm_eps: 1.0e-12\n  token_types: 2\n"
    roberta = "  num_heads: 3\n  kind: roberta\n  norm_eps: 1.0e-5\n  token_types: 1\n"
    modern = "  num_heads: 3\n  kind: modernbert\n  attention_window: 9\n"
    labels = "  head: classification\n  num_labels: 3\n"
    label_data = "  labels: docs,code,tests\n  truncate: true\n"
    label_names = {"num_labels": 3, "id2label": {0: "docs", 1: "code", 2: "tests"}}
    sets, numbers = "multi_label_classification", "regression"
    words = "  head: token_classification\n  num_labels: 3\n"
    word_data = "  labels: O,B-A,I-A\n  truncate: true\n"
    word_names = {"num_labels": 3, "id2label": {0: "O", 1: "B-A", 2: "I-A"}}
    scaled = "  rotary_scaling: {}\n  rotary_factor: 4\n"
    t5 = (
        f"  kind: t5\n  num_heads: 6\n  head_dim: 12\n  num_decoder_layers: 3\n"
        f"  relative_max_distance: 32\n  vocab_size: {VOCABULARY + SENTINELS}\n"
    )
    sentinels = f"span_corruption: {{sentinels: {SENTINELS}}}\n"
    # More rows than tokens: a padded vocabulary.
    size = f"  vocab_size: {VOCABULARY}\n"
    gpt = "  num_heads: 3\n"
    return [
        Kind("gpt of bytes", "byte", gpt + "  vocab_size: 257\n", "", GPT2LMHeadModel, gpt2_config(257)),
        Kind("gpt of BPE", "bpe", gpt + size, "", GPT2LMHeadModel, gpt2_config(VOCABULARY)),
        Kind(
            "gpt of SentencePiece",
            "sentencepiece",
            gpt + size,
            "",
            GPT2LMHeadModel,
            gpt2_config(VOCABULARY),
        ),
        Kind(
            "gpt of WordPiece",
            "wordpiece",
            gpt + f"  vocab_size: {VOCABULARY + 12}\n",
            "",
            GPT2LMHeadModel,
            gpt2_config(VOCABULARY + 12),
        ),
        Kind(
            "llama",
            "bpe",
            llama + "  kind: llama\n  rotary_base: 500000\n" + scaled.format("llama3")
            + "  rotary_original_length: 16\n" + size,
            "",
            LlamaForCausalLM,
            llama_config(
                LlamaConfig,
                rope_parameters={
                    "rope_type": "llama3",
                    "rope_theta": 500000.0,
                    "factor": 4.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 16,
                },
                rms_norm_eps=1e-5,
            ),
        ),
        Kind(
            "mistral with wide heads and a window",
            "bpe",
            llama + "  kind: mistral\n  head_dim: 12\n  attention_window: 20\n"
            + scaled.format("linear") + size,
            "",
            MistralForCausalLM,
            llama_config(
                MistralConfig,
                head_dim=12,
                sliding_window=20,
                rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
            ),
        ),
        Kind(
            "qwen2 with a tied head",
            "bpe",
            llama + "  kind: qwen2\n  tie_embeddings: true\n" + scaled.format("yarn")
            + "  rotary_original_length: 16\n" + size,
            "",
            Qwen2ForCausalLM,
            llama_config(
                Qwen2Config,
                tie_word_embeddings=True,
                rope_parameters={
                    "rope_type": "yarn",
                    "rope_theta": 10000.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": 16,
                },
            ),
        ),
        Kind(
            "qwen3 with a window in its second layer",
            "bpe",
            llama + "  kind: qwen3\n  attention_window: 20\n  window_pattern: GL\n" + size,
            "",
            Qwen3ForCausalLM,
            llama_config(
                Qwen3Config,
                head_dim=8,
                use_sliding_window=True,
                sliding_window=20,
                layer_types=["full_attention", "sliding_attention"],
            ),
        ),
        Kind(
            "bert with sentence pairs",
            "wordpiece",
            bert + size + "  next_sentence: true\n",
            "",
            BertForPreTraining,
            bert_config(),
        ),
        Kind("bert", "wordpiece", bert + size, "", BertForMaskedLM, bert_config()),
        Kind(
            "bert, cased", "wordpiece-cased", bert + size, "", BertForMaskedLM, bert_config()
        ),
        Kind(
            "bert that classifies",
            "wordpiece",
            bert + size + labels,
            label_data,
            BertForSequenceClassification,
            bert_config(**label_names),
        ),
        Kind("roberta", "wordpiece", roberta + size, "", RobertaForMaskedLM, roberta_config()),
        Kind(
            "roberta that classifies",
            "wordpiece",
            roberta + size + labels,
            label_data,
            RobertaForSequenceClassification,
            roberta_config(**label_names),
        ),
        Kind(
            "modernbert", "wordpiece", modern + size, "", ModernBertForMaskedLM, modernbert_config()
        ),
        Kind(
            "modernbert that classifies",
            "wordpiece",
            modern + size + labels,
            label_data,
            ModernBertForSequenceClassification,
            modernbert_config(**label_names),
        ),
        Kind(
            "bert with sets of labels",
            "wordpiece",
            bert + size + labels + f"  problem_type: {sets}\n",
            label_data,
            BertForSequenceClassification,
            bert_config(problem_type=sets, **label_names),
        ),
        Kind(
            "roberta with numbers",
            "wordpiece",
            roberta + size + f"  head: classification\n  num_labels: 1\n  problem_type: {numbers}\n",
            "  truncate: true\n",
            RobertaForSequenceClassification,
            roberta_config(problem_type=numbers, num_labels=1),
        ),
        Kind(
            "bert that labels words",
            "wordpiece",
            bert + size + words,
            word_data,
            BertForTokenClassification,
            bert_config(**word_names),
        ),
        Kind(
            "roberta that labels words",
            "wordpiece",
            roberta + size + words,
            word_data,
            RobertaForTokenClassification,
            roberta_config(**word_names),
        ),
        Kind(
            "modernbert that labels words",
            "wordpiece",
            modern + size + words,
            word_data,
            ModernBertForTokenClassification,
            modernbert_config(**word_names),
        ),
        Kind("t5", "bpe", t5, sentinels, T5ForConditionalGeneration, t5_config()),
        Kind(
            "t5 v1.1",
            "wordpiece",
            t5 + "  gated_mlp: true\n  activation: gelu_tanh\n  tie_embeddings: false\n"
            "  scaled_logits: false\n",
            sentinels,
            T5ForConditionalGeneration,
            t5_config(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        ),
    ]


def is_decoder(theirs):
    return theirs.__name__.endswith(("ForCausalLM", "LMHeadModel"))


def has_source(theirs):
    return theirs.__name__.endswith("ForConditionalGeneration")


def classifies(theirs):
    return theirs.__name__.endswith("ForSequenceClassification")


def labels_words(theirs):
    return theirs.__name__.endswith("ForTokenClassification")


class Workshop:
    """Runs tessera in a folder of its own."""

    def __init__(self, build, folder):
        self.binary, self.folder = str(Path(build).resolve() / "tessera"), Path(folder)
        self.sources = sorted(ROOT.glob("launch/train/*.cpp"))

    def __call__(self, *arguments):
        command = [self.binary, *map(str, arguments)]
        # Generated bytes may not be UTF-8.
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", cwd=self.folder
        )
        if done.returncode != 0:
            sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def spec(self, kind):
        """The specification of a tokenizer with VOCABULARY tokens; trains it on the sources if it does not exist yet."""
        if kind == "byte":
            return kind
        name = {"bpe": "bpe", "sentencepiece": "sentencepiece.model"}.get(kind, f"{kind}.txt")
        output = self.folder / name
        if not output.exists():
            train_kind = ["--kind", kind.removesuffix("-cased")]
            cased = ["--cased"] if kind == "wordpiece-cased" else []
            self(
                *["tokenizer", "train", *train_kind, *cased, "--vocab-size", VOCABULARY],
                *["--output", output, "--input", *self.sources],
            )
        return f"{kind}:{output}"

    def dataset(self, kind):
        """The prefix of the dataset of the sources."""
        prefix = self.folder / f"data_{kind.tokenizer}_{kind.theirs.__name__}"
        if classifies(kind.theirs) or labels_words(kind.theirs):
            return self.labeled(kind)
        if not prefix.with_suffix(".bin").exists():
            # Lines are sentences for pairs; otherwise they are documents, so that none is too long.
            documents, sentences = "file", "none"
            if kind.theirs is BertForPreTraining:
                documents, sentences = "paragraph", "line"
            elif not is_decoder(kind.theirs) and not has_source(kind.theirs):
                documents = "line"
            self(
                *["prepare", "--tokenizer", self.spec(kind.tokenizer), "--output", prefix],
                *["--documents", documents, "--sentences", sentences, "--input", *self.sources],
            )
        return prefix

    def labeled(self, kind):
        path = self.folder / "texts.jsonl"
        lines = [line for p in self.sources for line in p.read_text().splitlines() if line.strip()]
        names = ("docs", "code", "tests")
        rows = []
        for i, line in enumerate(lines[:600]):
            if labels_words(kind.theirs):
                tokens = line.split()
                tags = [("O", "B-A", "I-A")[len(token) % 3] for token in tokens]
                rows.append({"tokens": tokens, "tags": tags})
            elif kind.config.problem_type == "multi_label_classification":
                rows.append({"text": line, "labels": list(names[: i % 4])})
            elif kind.config.problem_type == "regression":
                rows.append({"text": line, "label": len(line) / 50})
            else:
                rows.append({"text": line, "label": names[i % 3]})
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def config(self, kind, run):
        path = self.folder / f"{run}.yaml"
        path.write_text(
            f"run: {{dir: {self.folder / run}, seed: {SEED}}}\n{MODEL}{kind.model}"
            f"data:\n  train: {self.dataset(kind)}\n  eval_fraction: 0.1\n"
            f"  tokenizer: {self.spec(kind.tokenizer)}\n{kind.data}{RUN}"
        )
        return path

    def evaluated(self, checkpoint, config):
        """Tessera's loss, and the samples that it evaluated."""
        dump = self.folder / f"{Path(checkpoint).name}_dump.safetensors"
        dump.unlink(missing_ok=True)
        report = json.loads(
            self("eval", checkpoint, "--config", config, "--json", "--dump", dump)
        )
        return report["loss"], load_file(dump)

    def ids(self, spec, texts):
        """The tokens of each text, from a dataset in which each is a document."""
        sources, prefix = [], self.folder / "texts"
        for i, text in enumerate(texts):
            sources.append(self.folder / f"text{i}.txt")
            sources[-1].write_bytes(text.encode())
        self("prepare", "--overwrite", "--tokenizer", spec, "--output", prefix, "--input", *sources)
        # Megatron-LM's index: magic (9), version (8), dtype (1), sequences (8), documents (8), sizes.
        index = Path(f"{prefix}.idx").read_bytes()
        count = int.from_bytes(index[18:26], "little")
        sizes = np.frombuffer(index, "<i4", count, offset=34)
        ids = np.split(np.fromfile(f"{prefix}.bin", "<u2"), np.cumsum(sizes)[:-1])
        assert len(ids) == len(texts)
        return [row.tolist() for row in ids]


def loss_of(model, dump):
    """The loss of the transformers model on the samples that Tessera evaluated, one document at a time."""
    model.eval()
    tokens = torch.from_numpy(dump["tokens"]).long()
    targets = torch.from_numpy(dump["targets"]).long()
    types = torch.from_numpy(dump["token_types"]).long()
    token_sum = label_sum = 0.0
    begin = source = 0

    def summed(logits, wanted):
        return torch.nn.functional.cross_entropy(
            logits.double(), wanted, ignore_index=-1, reduction="sum"
        ).item()

    for document, length in enumerate(dump["document_lengths"].tolist()):
        end = begin + length
        inputs = {"input_ids": tokens[None, begin:end]}
        if isinstance(model.config, BertConfig):
            inputs["token_type_ids"] = types[None, begin:end]
        if has_source(type(model)):
            source_end = source + int(dump["source_lengths"][document])
            source_ids = torch.from_numpy(dump["source_tokens"][source:source_end]).long()
            inputs = {"input_ids": source_ids[None], "decoder_input_ids": tokens[None, begin:end]}
            source = source_end
        with torch.no_grad():
            made = model(**inputs)
        if classifies(type(model)):
            label_logits, token_logits = made.logits, None
        elif isinstance(model, BertForPreTraining):
            label_logits, token_logits = made.seq_relationship_logits, made.prediction_logits
        else:
            label_logits, token_logits = None, made.logits
        if token_logits is not None:
            token_sum += summed(token_logits[0], targets[begin:end])
        problem = model.config.problem_type
        if label_logits is not None and problem in ("multi_label_classification", "regression"):
            values = torch.from_numpy(dump["label_values"][document : document + 1]).double()
            loss = torch.nn.functional.mse_loss
            if problem == "multi_label_classification":
                loss = torch.nn.functional.binary_cross_entropy_with_logits
            label_sum += loss(label_logits.double(), values).item()
        elif label_logits is not None:
            label = torch.tensor([int(dump["labels"][document])])
            label_sum += summed(label_logits, label)
        begin = end
    assert begin == len(tokens)
    target_count, documents = int((targets >= 0).sum()), len(dump["document_lengths"])
    return token_sum / max(target_count, 1) + label_sum / documents


def check(what, ok, detail=""):
    print(f"{'ok' if ok else 'FAILED'}: {what}{': ' if detail else ''}{detail}", flush=True)
    if not ok:
        sys.exit(1)


def check_loss(what, ours, theirs):
    off = abs(ours - theirs)
    check(what, off <= TOLERANCE, f"loss {ours:.7f} here, {theirs:.7f} there, {off:.1e} apart")


def load(kind, folder):
    model, info = kind.theirs.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager"
    )
    # Tied heads are not separate weights, so no file contains them.
    tied = {
        "lm_head.weight",
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
        "lm_head.decoder.weight",
        "lm_head.decoder.bias",
        "decoder.weight",
        # T5's embedding is shared.weight.
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
    }
    problems = {key: sorted(set(info[key]) - tied) for key in ("missing_keys", "unexpected_keys")}
    problems["mismatched_keys"] = sorted(map(str, info["mismatched_keys"]))
    check(f"{kind.name}: transformers finds all weights", not any(problems.values()), str(problems))
    return model


def check_generation(tessera, kind, run, model, tokenizer, what):
    prompt, count = "#include ", 30
    said = tessera(
        *["generate", tessera.folder / run, "--prompt", prompt, "--temperature", 0],
        *["--max-tokens", count],
    )
    ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    with torch.no_grad():
        for _ in range(count):
            token = model(ids).logits[:, -1].argmax(-1, keepdim=True)
            if token.item() == end:
                break
            ids = torch.cat([ids, token], dim=1)
    text = tokenizer.decode(ids[0], clean_up_tokenization_spaces=False)
    check(f"{kind.name}: {what}", said.rstrip("\n") == text.rstrip("\n"), repr(text))


def log_likelihood(model, tokenizer, context, choice):
    """That of a choice, whose tokens are split from the context's as in lm-evaluation-harness."""
    whole = tokenizer.encode(f"{context} {choice}", add_special_tokens=False)
    count = len(whole) - len(tokenizer.encode(context.rstrip(), add_special_tokens=False))
    ids = torch.tensor(whole[-(SEQ_LENGTH + 1) :])
    with torch.no_grad():
        logits = model(ids[None, :-1]).logits[0].double().log_softmax(-1)
    return logits[-count:].gather(1, ids[-count:, None]).sum().item()


def check_choices(tessera, kind, run, model, tokenizer, what):
    """The log-likelihoods of choices, also after contexts that are too long or end with spaces."""
    text = tessera.sources[0].read_text()
    lines = [line.strip() for line in text.splitlines() if len(line.split()) > 4][:21]
    contexts = [text[:600].rstrip(), "ends with spaces  ", *(line[: len(line) // 2].rstrip() for line in lines)]
    questions = [
        {"question": context, "choices": [line[-i - 9 :] for line in lines[i % 5 :: 6]], "answer": 0}
        for i, context in enumerate(contexts)
    ]
    path, output = tessera.folder / "questions.jsonl", tessera.folder / "answers.jsonl"
    path.write_text("".join(json.dumps(question) + "\n" for question in questions))
    tessera(
        *["eval", tessera.folder / run, "--multiple-choice", path, "--log-samples", output, "--overwrite"]
    )
    worst, count = 0.0, 0
    for question, line in zip(questions, output.read_text().splitlines(), strict=True):
        for choice, ours in zip(question["choices"], json.loads(line)["log_likelihoods"], strict=True):
            theirs = log_likelihood(model, tokenizer, question["question"], choice)
            worst, count = max(worst, abs(ours - theirs) / abs(theirs)), count + 1
    check(f"{kind.name}: {what}", worst <= TOLERANCE, f"{count} choices, at most {worst:.1e} of one apart")


def check_target(tessera, kind, run, model, tokenizer, what):
    """The likeliest target of a source."""
    source, count = "#include and the rest", 30
    said = tessera("generate", tessera.folder / run, "--prompt", source, "--max-tokens", count)
    config = model.config
    ids = tokenizer.encode(source, add_special_tokens=False) + [config.eos_token_id]
    target = torch.tensor([[config.decoder_start_token_id]])
    with torch.no_grad():
        for _ in range(count):
            logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=target).logits[:, -1]
            token = logits[:, : len(tokenizer)].argmax(-1, keepdim=True)
            if token.item() == config.eos_token_id:
                break
            target = torch.cat([target, token], dim=1)
    text = tokenizer.decode(target[0, 1:], clean_up_tokenization_spaces=False)
    check(f"{kind.name}: {what}", said.rstrip("\n") == text.rstrip("\n"), repr(text))


def check_words(tessera, kind, run, model, tokenizer):
    sentences = [line.split() for line in tessera.sources[0].read_text().splitlines() if line.split()]
    sentences = [words for words in sentences if sum(map(len, words)) < 40][:50]
    path, output = tessera.folder / "words.jsonl", tessera.folder / "labels.jsonl"
    path.write_text("".join(json.dumps({"tokens": words}) + "\n" for words in sentences))
    tessera("classify", tessera.folder / run, "--input", path, "--output", output, "--overwrite")
    ours = [json.loads(line)["tags"] for line in output.read_text().splitlines()]
    theirs = []
    for words in sentences:
        inputs = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        first = [inputs.word_ids().index(i) for i in range(len(words))]
        with torch.no_grad():
            logits = model(input_ids=inputs["input_ids"]).logits[0]
        theirs.append([model.config.id2label[i] for i in logits[first].argmax(-1).tolist()])
    check(f"{kind.name}: the same labels of words", ours == theirs, f"{sum(map(len, ours))} words")


def tokenizer_of(kind, folder):
    """The exported tokenizer. AutoTokenizer replaces that of any Qwen or RoBERTa folder by their own."""
    is_own = kind.theirs.__name__.startswith(("Qwen", "Roberta", "T5"))
    return (PreTrainedTokenizerFast if is_own else AutoTokenizer).from_pretrained(folder)


def check_tokenizer(tessera, kind, run, model, folder):
    spec = tessera.spec(kind.tokenizer)
    if kind.tokenizer == "sentencepiece":
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    else:
        tokenizer = tokenizer_of(kind, folder)
    for text, ours in zip(TEXTS, tessera.ids(spec, TEXTS), strict=True):
        if kind.tokenizer == "sentencepiece":
            theirs = processor.encode(text)
        else:
            theirs = tokenizer.encode(text, add_special_tokens=False)
        check(f"{kind.name}: tokens of {text[:20]!r}", ours == theirs, f"{len(ours)} tokens")
    if is_decoder(kind.theirs):
        if kind.tokenizer == "bpe":
            what = "the likeliest continuation"
            check_generation(tessera, kind, run, model, tokenizer, what)
            what = "the log-likelihoods of choices"
            check_choices(tessera, kind, run, model, tokenizer, what)
        return
    if has_source(kind.theirs):
        check_target(tessera, kind, run, model, tokenizer, "the likeliest target")
        return
    if labels_words(kind.theirs):
        check_words(tessera, kind, run, model, tokenizer)
    pair = tokenizer("one two", "three", return_token_type_ids=True)
    names = tokenizer.convert_ids_to_tokens(pair["input_ids"])
    ends = [i for i, name in enumerate(names) if name == "[SEP]"]
    types = pair["token_type_ids"]
    check(
        f"{kind.name}: a pair is [CLS] A [SEP] B [SEP]",
        names[0] == "[CLS]" and len(ends) == 2 and types == [0] * (ends[0] + 1)
        + [1] * (ends[1] - ends[0]),
    )


def check_export(tessera, kind, run, config):
    tessera("train", config)
    ours, dump = tessera.evaluated(tessera.folder / run, config)
    for options in ([], ["--max-shard-size", "50KB"]):
        out = tessera.folder / f"{run}_exported"
        tessera("export", tessera.folder / run, "--to", out, "--overwrite", *options)
        shards = len(list(out.glob("*.safetensors")))
        what = f"{kind.name}: exported in {shards} file{'s' if shards > 1 else ''}"
        model = load(kind, out)
        check_loss(what, ours, loss_of(model, dump))
        check(what, (shards > 1) == bool(options))
    check_tokenizer(tessera, kind, run, model, out)
    check_mup(tessera, kind, run, config)
    check_adapters(tessera, kind, run, config, out, ours)


def check_mup(tessera, kind, run, config):
    """The weights of an exported model have the scales of µP."""
    wide, out = tessera.folder / f"{run}_wide", tessera.folder / f"{run}_wide_exported"
    keys = {"run.dir": wide, "model.mup_base_hidden_size": 20, "model.mup_base_head_dim": 5}
    tessera("train", config, *[word for key, value in keys.items() for word in ("--set", f"{key}={value}")])
    ours, dump = tessera.evaluated(wide, config)
    tessera("export", wide, "--to", out)
    check_loss(f"{kind.name}: exported from µP", ours, loss_of(load(kind, out), dump))


def check_adapters(tessera, kind, run, config, base, base_loss):
    tuned, merged = tessera.folder / f"{run}_tuned", tessera.folder / f"{run}_merged"
    keys = {"run.dir": tuned, "checkpoint.from": tessera.folder / run, "model.lora_rank": 3}
    keys |= {"model.lora_alpha": 24, "optimizer.lr": 0.01}
    if is_decoder(kind.theirs):
        head = "" if kind.config.tie_word_embeddings else ', "head.*"'
        keys["optimizer.trained"] = f'["embedding.word", "final_norm.*"{head}]'
    sets = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    tessera("train", config, *sets)
    ours, dump = tessera.evaluated(tuned, config)
    what = f"{kind.name}: adapters were trained"
    check(what, abs(ours - base_loss) > 10 * TOLERANCE, f"loss {base_loss:.6f} before, {ours:.6f} after")
    tessera("export", tuned, "--to", merged)
    check_loss(f"{kind.name}: adapters merged", ours, loss_of(load(kind, merged), dump))
    alone = tessera.folder / f"{run}_adapter"
    tessera("export", tuned, "--to", alone, "--adapter")
    loaded = peft.PeftModel.from_pretrained(load(kind, base), alone).base_model.model
    check_loss(f"{kind.name}: adapters loaded by PEFT", ours, loss_of(loaded, dump))
    back = tessera.folder / f"{run}_adapter_back"
    tessera("import", alone, "--base", tessera.folder / run, "--to", back)
    again, _ = tessera.evaluated(back, config)
    check_loss(f"{kind.name}: adapters imported again", again, ours)
    if is_decoder(kind.theirs) or classifies(kind.theirs) or labels_words(kind.theirs):
        check_adapter_import(tessera, kind, run, config, base)


def saved_modules(kind):
    """Modules that PEFT trains beside the adapters; it adds those that classify by itself."""
    if not is_decoder(kind.theirs):
        return None
    if kind.theirs is GPT2LMHeadModel:  # whose head must stay tied
        return ["wpe", "ln_f", "h.1.mlp.c_proj"]
    # The head of a model that ties it becomes a copy.
    return ["lm_head"] if kind.config.tie_word_embeddings else ["embed_tokens", "lm_head", "norm"]


def check_adapter_import(tessera, kind, run, config, base):
    """Of an adapter that PEFT made, with normal numbers, of some of the layers, and whole modules."""
    torch.manual_seed(SEED)
    names = ["q_proj", "v_proj", "down_proj"]
    if kind.theirs is GPT2LMHeadModel:
        names = ["c_attn", "c_fc"]
    elif isinstance(kind.config, ModernBertConfig):
        names = ["Wqkv", "mlp.Wo"]
    elif not is_decoder(kind.theirs):
        names = ["query", "value", "intermediate.dense"]
    tasks = {"SEQ_CLS": classifies, "TOKEN_CLS": labels_words, "CAUSAL_LM": is_decoder}
    settings = peft.LoraConfig(
        r=4,
        lora_alpha=6,
        lora_dropout=0.1,
        use_rslora=True,
        target_modules=names,
        modules_to_save=saved_modules(kind),
        task_type=next(task for task, has in tasks.items() if has(kind.theirs)),
    )
    model = peft.get_peft_model(load(kind, base), settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                parameter.normal_(0.0, 0.15)
                if "norm" in name or "ln_f" in name:
                    parameter.add_(1.0)
    saved, imported = tessera.folder / f"{run}_peft", tessera.folder / f"{run}_peft_imported"
    model.save_pretrained(saved)
    tessera("import", saved, "--base", tessera.folder / run, "--to", imported)
    ours, dump = tessera.evaluated(imported, config)
    check_loss(f"{kind.name}: PEFT's adapters imported", ours, loss_of(model.base_model.model, dump))



def check_import(tessera, kind, run, config):
    torch.manual_seed(SEED)
    model = kind.theirs(kind.config)
    if has_source(kind.theirs) and not kind.config.scale_decoder_outputs:
        # transformers 5 ties every new T5.
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.15)
            if "norm" in name.lower() or ".ln_" in name:
                parameter.add_(1.0)
            if isinstance(model.config, RobertaConfig) and "position_embeddings" in name:
                parameter[: model.config.pad_token_id + 1] = 0.0  # of no position
    saved, imported = tessera.folder / f"{run}_saved", tessera.folder / f"{run}_imported"
    model.save_pretrained(saved, max_shard_size="100KB")
    spec = tessera.spec(kind.tokenizer)
    said = tessera("import", saved, "--to", imported, "--tokenizer", spec)
    tessera("verify", imported)
    ours, dump = tessera.evaluated(imported, config)
    check_loss(f"{kind.name}: imported", ours, loss_of(model, dump))

    back = tessera.folder / f"{run}_back"
    tessera("export", imported, "--to", back)
    loaded = load(kind, back)
    again = loaded.state_dict()
    same = all(torch.equal(value, again[name]) for name, value in model.state_dict().items())
    check(f"{kind.name}: exported again, the same bits", same)
    if is_decoder(kind.theirs) and kind.tokenizer == "bpe":
        what = "the likeliest continuation by the imported model"
        model.eval()
        check_generation(tessera, kind, imported, model, tokenizer_of(kind, back), what)
        what = "the log-likelihoods of choices by the imported model"
        check_choices(tessera, kind, imported, model, tokenizer_of(kind, back), what)
    if has_source(kind.theirs):
        what = "the likeliest target by the imported model"
        check_target(tessera, kind, imported, loaded.eval(), tokenizer_of(kind, back), what)
    said_again = tessera("import", back, "--to", tessera.folder / f"{run}_again")
    identity = [re.search(r"tokenizer: (.*\))", text)[1] for text in (said, said_again)]
    what = f"{kind.name}: the exported tokenizer is imported as itself"
    check(what, len(set(identity)) == 1, identity[1])


def train_chat(tessera, chatml):
    """The folder of a run that learned messages, its export, and what it learned: questions and answers."""
    name = "chatml" if chatml else "plain"
    special = ["--special", "<|im_start|>", "--special", "<|im_end|>"] if chatml else []
    tokenizer, prefix = tessera.folder / f"{name}_bpe", tessera.folder / f"{name}_data"
    tessera(
        *["tokenizer", "train", "--kind", "bpe", "--vocab-size", VOCABULARY, *special],
        *["--output", tokenizer, "--input", *tessera.sources],
    )
    colors = ["red", "green", "blue", "black"]
    rows = [(f"What color is thing {i}?", f"It is {colors[i * i % 4]}.") for i in range(40)]
    lines = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}
        for q, a in rows
    ]
    messages = tessera.folder / "messages.jsonl"
    messages.write_text("".join(json.dumps(line) + "\n" for line in lines))
    tessera("prepare", "--tokenizer", f"bpe:{tokenizer}", "--output", prefix, "--input", *tessera.sources)
    base, run, out = (tessera.folder / f"{name}_{part}" for part in ("base", "run", "out"))
    config = tessera.folder / f"{name}.yaml"
    config.write_text(f"{MODEL}data: {{train: {prefix}}}\ntrain: {{steps: 1}}\n")
    tessera("train", config, "--set", f"run.dir={base}")
    config.write_text(
        f"data: {{train: {messages}}}\ntrain: {{steps: 60}}\noptimizer: {{lr: 0.005}}\n"
        f"checkpoint: {{from: {base}}}\n"
    )
    tessera("train", config, "--set", f"run.dir={run}")
    tessera("export", run, "--to", out)
    return run, out, rows


def check_chat(tessera, chatml):
    """A model that learned messages replies in transformers, with the exported template, as it does here."""
    name = "chatml" if chatml else "plain"
    run, out, rows = train_chat(tessera, chatml)
    model = GPT2LMHeadModel.from_pretrained(out, dtype=torch.float32, attn_implementation="eager")
    theirs = AutoTokenizer.from_pretrained(out)
    question = [{"role": "user", "content": rows[3][0]}]
    ids = theirs.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    written = model.eval().generate(**ids, max_new_tokens=20, do_sample=False)
    text = theirs.decode(written[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
    said = tessera(
        *["generate", run, "--prompt", rows[3][0], "--chat", "auto", "--temperature", 0],
        *["--max-tokens", 20],
    )
    check(f"{name}: a reply in transformers", said.rstrip("\n") == text and bool(text), repr(text))
    if chatml:
        for name in CHAT_TEMPLATES:
            check_chat_template(tessera, name, out)


# In the styles of Llama 3, Zephyr, Mistral and Gemma, with the tokens of ChatML.
CHAT_TEMPLATES = {
    "header": "{{- bos_token }}{%- for m in messages %}{{- '<|im_start|>' + m['role'] + '<|im_start|>\n\n' "
    "+ m['content'] | trim + '<|im_end|>' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant<|im_start|>\n\n' }}{%- endif %}",
    "lines": "{% for m in messages %}\n{{ '<|' + m['role'] + '|>\n' + m['content'] + eos_token }}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    "instruction": "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% if m['role'] == 'user' %}"
    "{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}",
    "merged": "{{ bos_token }}{% set first = '' %}{% set rest = messages %}"
    "{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\n\n' %}"
    "{% set rest = messages[1:] %}{% endif %}{% for m in rest %}"
    "{{ '<|im_start|>' + ('model' if m['role'] == 'assistant' else 'user') + '\n' "
    "+ (first if loop.first else '') + m['content'] | trim + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}",
}


def check_chat_template(tessera, name, exported):
    """The tokens of messages in an imported model with a template of its own."""
    folder, imported = tessera.folder / f"template_{name}", tessera.folder / f"template_{name}_run"
    shutil.copytree(exported, folder)
    theirs = AutoTokenizer.from_pretrained(exported)
    theirs.chat_template, theirs.bos_token = CHAT_TEMPLATES[name], "<|im_start|>"
    theirs.save_pretrained(folder)
    tessera("import", folder, "--to", imported)
    turns = [("user", "One? "), ("assistant", "No."), ("user", "Two\n\nof?"), ("assistant", "Yes.")]
    system = [] if name == "instruction" else [("system", "Be brief.")]
    for said in (turns, system + turns[:2]):
        messages = [{"role": role, "content": text} for role, text in said]
        path, dump = folder / "messages.jsonl", folder / "dump.safetensors"
        path.write_text(json.dumps({"messages": messages}) + "\n")
        dump.unlink(missing_ok=True)
        tessera("eval", imported, "--data", path, "--dump", dump)
        found = load_file(dump)
        ids = theirs.apply_chat_template(messages, return_dict=True)["input_ids"]
        ours = [*found["tokens"].tolist(), int(found["targets"][-1])]
        check(f"{name}: the tokens of {len(said)} messages", ids[: len(ours)] == ours, f"{len(ours)} tokens")
        check(f"{name}: all but the end", len(ids) - len(ours) <= 1)
    back = tessera.folder / f"template_{name}_back"
    tessera("export", imported, "--to", back)
    again = AutoTokenizer.from_pretrained(back)
    same = again.chat_template == theirs.chat_template and again.bos_token == theirs.bos_token
    check(f"{name}: exported, the same template", same)


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(header + array.tobytes())


def loss_of_images(model, folder, pixels, labels):
    """The loss of the transformers model on images (N, rows, columns), as the folder normalizes them."""
    how = json.loads((folder / "preprocessor_config.json").read_text())
    values = torch.from_numpy(pixels).float()[:, None] * how["rescale_factor"]
    values = (values - how["image_mean"][0]) / how["image_std"][0]
    with torch.no_grad():
        logits = model.eval()(pixel_values=values).logits
    return torch.nn.functional.cross_entropy(logits.double(), torch.from_numpy(labels)).item()


def check_images(tessera):
    """A ViT in both directions."""
    random = np.random.RandomState(SEED)
    pixels = random.randint(0, 256, size=(60, 12, 12)).astype(np.uint8)
    labels = random.randint(0, 3, size=60)
    images = tessera.folder / "images-idx3-ubyte"
    write_idx(images, pixels)
    write_idx(tessera.folder / "labels-idx1-ubyte", labels.astype(np.uint8))
    theirs = ViTConfig(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=160,
        image_size=12,
        patch_size=4,
        num_channels=1,
        num_labels=3,
    )
    kind = Kind("vit", None, None, None, ViTForImageClassification, theirs)
    run, exported = tessera.folder / "vit", tessera.folder / "vit_exported"
    config = tessera.folder / "vit.yaml"
    config.write_text(
        f"run: {{dir: {run}, seed: {SEED}}}\nmodel:\n  kind: vit\n  num_layers: 2\n"
        "  hidden_size: 48\n  num_heads: 3\n  mlp_size: 160\n  patch_size: 4\n"
        f"  init_stddev: 0.1\n  image_mean: 0.4\ndata:\n  train: {images}\n"
        f"  eval_fraction: 0.1\n{RUN}"
    )

    def loss_here(folder):
        return json.loads(
            tessera("eval", folder, "--config", config, "--data", images, "--json")
        )["loss"]

    tessera("train", config)
    tessera("export", run, "--to", exported)
    model = load(kind, exported)
    check_loss("vit: exported", loss_here(run), loss_of_images(model, exported, pixels, labels))

    torch.manual_seed(SEED)
    model = ViTForImageClassification(theirs)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.15)
            if "norm" in name:
                parameter.add_(1.0)
    saved, imported = tessera.folder / "vit_saved", tessera.folder / "vit_imported"
    model.save_pretrained(saved)
    processor = json.loads((exported / "preprocessor_config.json").read_text())
    (saved / "preprocessor_config.json").write_text(json.dumps(processor))
    tessera("import", saved, "--to", imported)
    check_loss("vit: imported", loss_here(imported), loss_of_images(model, saved, pixels, labels))
    back = tessera.folder / "vit_back"
    tessera("export", imported, "--to", back)
    again = load(kind, back).state_dict()
    same = all(torch.equal(value, again[name]) for name, value in model.state_dict().items())
    check("vit: exported again, the same bits", same)


def check_published(tessera, item):
    """A tokenizer with the structure of a published one, from transformers and back."""
    name, texts = item["name"], [text for text in TEXTS + item["texts"] if text.strip()]
    folder = tessera.folder / ("published " + name)
    theirs = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(item["tokenizer.json"]))
    )
    theirs.save_pretrained(folder)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(theirs),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=SEQ_LENGTH,
        )
    )
    model.save_pretrained(folder)
    ours = tessera.ids(f"huggingface:{folder}", texts)
    plain = {"add_special_tokens": False, "split_special_tokens": True}  # what stands in a text is text
    same = [theirs.encode(text, **plain) for text in texts] == ours
    check(f"{name}: the same tokens", same, f"{sum(map(len, ours))} tokens")
    run, back = tessera.folder / f"run {name}", tessera.folder / f"back {name}"
    tessera("import", folder, "--to", run)
    tessera("export", run, "--to", back)
    again = PreTrainedTokenizerFast.from_pretrained(back)
    for text in texts:
        ids = theirs.encode(text, add_special_tokens=False)
        if again.encode(text, add_special_tokens=False) != ids:
            check(f"{name}: exported, tokens of {text!r}", False)
        if again.decode(ids, skip_special_tokens=True) != theirs.decode(ids, skip_special_tokens=True):
            check(f"{name}: exported, the text of {ids}", False)
    check(f"{name}: exported, the same tokens and texts", True)


def published():
    golden = json.loads(Path(__file__).with_name("published_golden.json").read_text())
    return [{"texts": golden["texts"], **item} for item in golden["tokenizers"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "cpu", help="where tessera is")
    parser.add_argument("--only", default="", help="only kinds whose name contains this")
    arguments = parser.parse_args()
    build = arguments.build
    transformers.utils.logging.set_verbosity_error()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        tessera = Workshop(build, folder)
        chosen = [kind for kind in kinds() if arguments.only in kind.name]
        tokenizers = [item for item in published() if arguments.only in item["name"]]
        images, chats = arguments.only in "vit", arguments.only in "chat"
        found = chosen or tokenizers or images or chats
        check(f"there are kinds named {arguments.only!r}", bool(found))
        if chats:
            check_chat(tessera, chatml=False)
            check_chat(tessera, chatml=True)
        if images:
            check_images(tessera)
        for item in tokenizers:
            check_published(tessera, item)
        for i, kind in enumerate(chosen):
            run = f"run{i}"
            config = tessera.config(kind, run)
            check_export(tessera, kind, run, config)
            check_import(tessera, kind, run, config)
    print("all agree" if len(chosen) == len(kinds()) else "these agree")


if __name__ == "__main__":
    main()
