"""Writes tests/parity/classes/: a tiny model of each class of transformers, with its gradients in float64.

    python tests/parity/make_class_goldens.py [--compare] [--only NAME]

Each folder has config.json and model.safetensors, as save_pretrained() writes them, and
gradients.safetensors: the batch, its loss, and the gradient of each tensor. README.md says more. With
--compare, writes nothing and fails if a new computation differs from the files by more than their
rounding to float32.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

FOLDER = Path(__file__).with_name("classes")
VOCABULARY, WIDTH, LENGTH, CLASSES = 56, 24, 16, 3
ROWS = (11, 16, 5, 14)  # tokens of each row
SOURCES = (9, 13, 16, 3)  # of an encoder-decoder: source tokens of each row
IMAGE, PATCH, CHANNELS = 12, 4, 2  # of images: pixels of a side, of a patch's side, numbers of a pixel
SEED = 77


def rope(kind, **more):
    return {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0, **more}


def decoder(make, **more):
    return make(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=40,
        max_position_embeddings=LENGTH,
        pad_token_id=None,
        **more,
    )


def encoder(make, **more):
    return make(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_attention_heads=4,
        intermediate_size=40,
        # Hugging Face gives the padding token's embedding no gradient, even at real positions, so no
        # row contains it.
        pad_token_id=0,
        num_labels=CLASSES,
        **more,
    )


def roberta():
    return encoder(
        RobertaConfig,
        num_hidden_layers=2,
        max_position_embeddings=LENGTH + 1,  # positions are counted from the padding token's id
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def bert():
    return encoder(
        BertConfig,
        num_hidden_layers=2,
        max_position_embeddings=LENGTH,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def modernbert(**more):
    return encoder(
        ModernBertConfig,
        num_hidden_layers=3,
        max_position_embeddings=LENGTH,
        local_attention=6,
        **more,
    )


def t5(**more):
    return T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=8,  # heads wider than the model
        d_ff=40,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        dropout_rate=0.0,
        n_positions=LENGTH,
        decoder_start_token_id=0,
        **more,
    )


def vit():
    return ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        image_size=IMAGE,
        patch_size=PATCH,
        num_channels=CHANNELS,
        num_labels=CLASSES,
    )


def t5_with_own_head(config):
    """transformers 5 ties every new T5."""
    model = T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(model.shared.weight.detach().clone())
    return model


def models():
    length = {"original_max_position_embeddings": 8}
    return {
        "llama": (LlamaForCausalLM, decoder(
            LlamaConfig,
            rope_parameters=rope("llama3", low_freq_factor=1.0, high_freq_factor=4.0, **length),
        )),
        "llama_biases": (LlamaForCausalLM, decoder(
            LlamaConfig, attention_bias=True, mlp_bias=True
        )),
        "mistral": (MistralForCausalLM, decoder(
            MistralConfig, head_dim=8, sliding_window=5, rope_parameters=rope("linear")
        )),
        "qwen2": (Qwen2ForCausalLM, decoder(
            Qwen2Config, tie_word_embeddings=True, rope_parameters=rope("yarn", **length)
        )),
        "qwen3": (Qwen3ForCausalLM, decoder(
            Qwen3Config,
            head_dim=8,
            use_sliding_window=True,
            sliding_window=5,
            layer_types=["full_attention", "sliding_attention"],
        )),
        "qwen3_biases": (Qwen3ForCausalLM, decoder(
            Qwen3Config, head_dim=8, attention_bias=True
        )),
        "roberta": (RobertaForMaskedLM, roberta()),
        "roberta_classifier": (RobertaForSequenceClassification, roberta()),
        "modernbert": (ModernBertForMaskedLM, modernbert()),
        "modernbert_classifier": (ModernBertForSequenceClassification, modernbert()),
        "modernbert_mean_classifier": (
            ModernBertForSequenceClassification, modernbert(classifier_pooling="mean")
        ),
        "t5": (T5ForConditionalGeneration, t5()),
        "t5_v1_1": (
            t5_with_own_head, t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
        ),
        "vit": (ViTForImageClassification, vit()),
        "bert_embedding": (partial(BertModel, add_pooling_layer=False), bert()),
    }


def draw_weights(model, random):
    """Normal numbers that float32 represents; no bias is 0 and no norm's weight is 1."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = "norm" in name.lower() and name.endswith("weight")
            mean, stddev = (1.0, 0.3) if is_norm else (0.0, 0.25)
            if name.endswith("Attention.q.weight"):  # instead of T5's scores, as in its initial weights
                stddev /= model.config.d_kv**0.5
            drawn = mean + stddev * random.standard_normal(tuple(parameter.shape))
            if "position_embeddings" in name and not has_images(model):
                drawn[: model.config.pad_token_id + 1] = 0.0  # of no position
            parameter.copy_(torch.from_numpy(drawn.astype(np.float32).astype(np.float64)))


def has_images(model):
    return isinstance(model, ViTForImageClassification)


def draw_images(random):
    return random.standard_normal((len(ROWS), CHANNELS, IMAGE, IMAGE)).astype(np.float32)


def patches_of(images):
    """The rows of all tokens, (images * tokens, CHANNELS * PATCH * PATCH): zeros for the class token."""
    patches = torch.nn.functional.unfold(torch.from_numpy(images), PATCH, stride=PATCH).transpose(1, 2)
    return torch.nn.functional.pad(patches, (0, 0, 1, 0)).flatten(0, 1).numpy()


def gradients_as_saved(model):
    """The gradients by the names that save_pretrained() writes, which are those of published files."""
    gradients = type(model)(model.config).double()
    with torch.no_grad():
        for parameter, of in zip(gradients.parameters(), model.parameters()):
            parameter.copy_(of.grad)
    with tempfile.TemporaryDirectory() as saved:
        gradients.save_pretrained(saved)
        return load_file(Path(saved) / "model.safetensors")


def make_vit(model, random):
    """As make() does for other models."""
    images, labels = draw_images(random), np.array([2, 0, 1, 2])
    logits = model(pixel_values=torch.from_numpy(images).double()).logits
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    loss.backward()
    patches = patches_of(images)
    tokens = len(patches)
    made = {
        "tokens": np.zeros(tokens, dtype=np.int32),
        "token_types": np.tile(np.arange(tokens // len(ROWS)) > 0, len(ROWS)).astype(np.int32),
        "targets": np.full(tokens, -1, dtype=np.int32),
        "patches": patches,
        "rows": np.full(len(ROWS), tokens // len(ROWS), dtype=np.int32),
        "labels": labels.astype(np.int32),
        "loss": np.array([loss.item()], dtype=np.float32),
    }
    for name, gradient in gradients_as_saved(model).items():
        made["grad/" + name] = gradient.astype(np.float32)
    print(f"vit: loss {loss.item():.6f}")
    return model.float(), made


def draw_batch(model, random):
    """Tokens of all rows, one after the other; targets, −1 where there is none; a label for each row."""
    tokens = random.randint(1, VOCABULARY, size=sum(ROWS))
    if type(model).__name__.endswith(("ForCausalLM", "ForConditionalGeneration")):
        targets, begin = np.full(tokens.shape, -1), 0
        for row in ROWS:
            targets[begin : begin + row - 1] = tokens[begin + 1 : begin + row]
            begin += row
    else:
        chosen = random.uniform(size=tokens.shape) < 0.3
        targets = np.where(chosen, random.randint(1, VOCABULARY, size=tokens.shape), -1)
    return tokens, targets, np.array([2, 0, 1, 2])


def draw_sources(model, random):
    """The source tokens of all rows, one after the other, of an encoder-decoder."""
    if not model.config.is_encoder_decoder:
        return None
    return random.randint(1, VOCABULARY, size=sum(SOURCES))


def contrastive_loss(model, tokens):
    """MultipleNegativesRankingLoss of sentence-transformers: rows are an anchor, its positive, the next
    anchor, and so on. Embeddings are the mean of the hidden states."""
    vectors, begin = [], 0
    for row in ROWS:
        ids = torch.from_numpy(tokens[None, begin : begin + row])
        mean = model(input_ids=ids).last_hidden_state[0].mean(dim=0)
        vectors.append(torch.nn.functional.normalize(mean, dim=0))
        begin += row
    scores = 20.0 * torch.stack(vectors[0::2]) @ torch.stack(vectors[1::2]).T
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def loss_of(model, tokens, targets, labels, sources):
    """The mean over all targets, or over the rows of a classifier; each row is a pass of its own."""
    if isinstance(model, BertModel):
        return contrastive_loss(model, tokens)
    classifies = type(model).__name__.endswith("ForSequenceClassification")
    total, count, begin, source = 0.0, 0, 0, 0
    for row, label, source_row in zip(ROWS, labels, SOURCES):
        ids = torch.from_numpy(tokens[None, begin : begin + row])
        if sources is None:
            inputs = {"input_ids": ids}
        else:
            source_ids = torch.from_numpy(sources[None, source : source + source_row])
            inputs = {"input_ids": source_ids, "decoder_input_ids": ids}
        logits = model(**inputs).logits[0]
        source += source_row
        wanted = torch.tensor(label) if classifies else torch.from_numpy(targets[begin : begin + row])
        total = total + torch.nn.functional.cross_entropy(
            logits, wanted, ignore_index=-1, reduction="sum"
        )
        count += 1 if classifies else int((wanted >= 0).sum())
        begin += row
    return total / count


def make(name, theirs, config):
    random = np.random.RandomState(SEED)  # a stream that numpy's policy freezes
    config._attn_implementation = "eager"
    model = theirs(config).double().train()
    draw_weights(model, random)
    if has_images(model):
        return make_vit(model, random)
    tokens, targets, labels = draw_batch(model, random)
    sources = draw_sources(model, random)
    loss = loss_of(model, tokens, targets, labels, sources)
    loss.backward()
    made = {
        "tokens": tokens.astype(np.int32),
        "targets": targets.astype(np.int32),
        "rows": np.array(ROWS, dtype=np.int32),
        "labels": labels.astype(np.int32),
        "loss": np.array([loss.item()], dtype=np.float32),
    }
    if sources is not None:
        made["source_tokens"] = sources.astype(np.int32)
        made["source_rows"] = np.array(SOURCES, dtype=np.int32)
    for parameter_name, parameter in model.named_parameters():
        # A parameter that does nothing, such as the key's bias, may have no gradient.
        assert parameter.grad is not None, parameter_name
        made["grad/" + parameter_name] = parameter.grad.numpy().astype(np.float32)
    gradients = sum(key.startswith("grad/") for key in made)
    print(f"{name}: loss {loss.item():.6f}, {gradients} tensors")
    return model.float(), made


def compare(folder, made):
    stored = load_file(folder / "gradients.safetensors")
    assert stored.keys() == made.keys(), folder
    for key, value in made.items():
        # Another order of sums in float64, rounded to float32.
        if not np.allclose(stored[key], value, rtol=2e-7, atol=1e-9):
            sys.exit(f"FAILED: {folder.name}: {key} differs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", action="store_true", help="compare with the files")
    parser.add_argument("--only", default="", help="only models whose name contains this")
    only_compare, only = parser.parse_args().compare, parser.parse_args().only
    transformers.utils.logging.set_verbosity_error()
    for name, (theirs, config) in models().items():
        if only not in name:
            continue
        model, made = make(name, theirs, config)
        folder = FOLDER / name
        if only_compare:
            compare(folder, made)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as saved:
            model.save_pretrained(saved)
            for file in ("config.json", "model.safetensors"):
                (folder / file).write_bytes((Path(saved) / file).read_bytes())
        save_file(made, folder / "gradients.safetensors")
    print("the files agree" if only_compare else f"written to {FOLDER}")


if __name__ == "__main__":
    main()
