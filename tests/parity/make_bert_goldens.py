"""Writes bert_golden.safetensors: a tiny BERT computed by Hugging Face and PyTorch in float64.

The C++ parity test loads the file and must find the same logits, losses, gradients and training
steps. README.md says what the file holds, and how to make it again or compare with it.
"""

import math
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
)

import golden_file
from adamw_steps import train
from plain_model import attention, confirm_gradients, cross_entropy, layer_norm, linear

GOLDEN = Path(__file__).with_name("bert_golden.safetensors")

LAYERS, HEADS, C, V, T, TOKEN_TYPES, CLASSES = 2, 3, 24, 53, 16, 2, 3
LAYER_NORM_EPS = 1e-12
LENGTHS = (11, 16, 5, 14)  # real tokens of each row
FIRST_SEGMENT = (6, 9, 5, 1)  # of them, how many have token type 0
TARGET_SHARE = 0.3  # of the real tokens
SEED = 4321

QKV = ("query", "key", "value")


def parameters():
    """Tessera's name -> (Tessera's shape, Hugging Face's name, mean and stddev at the start).

    The standard deviations keep activations near 1, so that attention is neither uniform nor one-hot. No
    bias is 0 and no norm's weight is 1, so that no missing term goes unnoticed. Q, K and V are one
    parameter in Tessera.
    """
    table = {}

    def add(name, shape, hf_name, stddev, mean=0.0):
        table[name] = (shape, hf_name, mean, stddev)

    def add_linear(name, outputs, inputs, hf_name, stddev):
        add(name + ".weight", (outputs, inputs), hf_name + ".weight", stddev)
        add(name + ".bias", (outputs,), hf_name + ".bias", 0.3)

    def add_norm(name, hf_name):
        add(name + ".weight", (C,), hf_name + ".weight", 0.3, mean=1.0)
        add(name + ".bias", (C,), hf_name + ".bias", 0.3)

    embeddings = "bert.embeddings."
    add("embedding.word", (V, C), embeddings + "word_embeddings.weight", 0.4)
    add("embedding.position", (T, C), embeddings + "position_embeddings.weight", 0.4)
    add("embedding.token_type", (TOKEN_TYPES, C), embeddings + "token_type_embeddings.weight", 0.4)
    add_norm("embedding.norm", embeddings + "LayerNorm")
    for i in range(LAYERS):
        ours, theirs = f"blocks.{i}.", f"bert.encoder.layer.{i}."
        add(ours + "attention.qkv.weight", (3, C, C), theirs + "attention.self.{}.weight", 0.25)
        add(ours + "attention.qkv.bias", (3, C), theirs + "attention.self.{}.bias", 0.3)
        add_linear(ours + "attention.output", C, C, theirs + "attention.output.dense", 0.2)
        add_norm(ours + "attention_norm", theirs + "attention.output.LayerNorm")
        add_linear(ours + "mlp.up", 4 * C, C, theirs + "intermediate.dense", 0.2)
        add_linear(ours + "mlp.down", C, 4 * C, theirs + "output.dense", 0.1)
        add_norm(ours + "mlp_norm", theirs + "output.LayerNorm")
    add_linear("head.transform", C, C, "cls.predictions.transform.dense", 0.25)
    add_norm("head.norm", "cls.predictions.transform.LayerNorm")
    add("head.bias", (V,), "cls.predictions.bias", 0.3)
    add_linear("pooler", C, C, "bert.pooler.dense", 0.25)
    add_linear("next_sentence", 2, C, "cls.seq_relationship", 0.3)
    add_linear("classifier", CLASSES, C, "classifier", 0.3)
    return table


def parameters_of(model):
    """The rows of the table whose parameters this Hugging Face model has, and its parameters by name."""
    theirs = dict(model.named_parameters())
    table = {
        name: (shape, hf_names)
        for name, (shape, hf_name, _, _) in parameters().items()
        if (hf_names := names_of_parts(hf_name))[0] in theirs
    }
    assert set(theirs) == {hf_name for _, hf_names in table.values() for hf_name in hf_names}
    return table, theirs


def names_of_parts(hf_name):
    return [hf_name.format(part) for part in QKV] if "{}" in hf_name else [hf_name]


def draw_inputs():
    """Weights by Tessera's names as float64; the batch by Hugging Face's names, int32.

    A label of -1 is ignored. Padding positions contain random tokens like all others: the results do
    not depend on them, and no token's value means padding.
    """
    # RandomState's streams are frozen by numpy's policy; those of newer generators may change.
    random = np.random.RandomState(SEED)
    B, place = len(LENGTHS), np.arange(T)
    real = place < np.array(LENGTHS)[:, None]  # (B, T)
    chosen = real & (random.uniform(size=(B, T)) < TARGET_SHARE)
    batch = {
        "input_ids": random.randint(0, V, size=(B, T)),
        "token_type_ids": (place >= np.array(FIRST_SEGMENT)[:, None]).astype(int),
        "attention_mask": real.astype(int),
        "labels": np.where(chosen, random.randint(0, V, size=(B, T)), -1),
        "next_sentence_label": np.array([0, 1, 1, 0]),
        "classes": np.array([2, 0, 1, 2]),
    }
    weights = {}
    for name, (shape, _, mean, stddev) in parameters().items():
        drawn = mean + stddev * random.standard_normal(shape)
        # The file holds float32, so the computation must start from exactly those values.
        weights[name] = drawn.astype(np.float32).astype(np.float64)
    return weights, {key: value.astype(np.int32) for key, value in batch.items()}


def build_model(kind, weights):
    config = BertConfig(
        vocab_size=V,
        hidden_size=C,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * C,
        max_position_embeddings=T,
        # With a padding id, Hugging Face gives that token's embedding no gradient, even at real
        # positions. Here no token's value means padding.
        pad_token_id=None,
        type_vocab_size=TOKEN_TYPES,
        hidden_act="gelu",
        layer_norm_eps=LAYER_NORM_EPS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    model = kind(config).double().train()
    table, theirs = parameters_of(model)
    with torch.no_grad():
        for name, (_, hf_names) in table.items():
            parts = weights[name] if len(hf_names) > 1 else [weights[name]]
            for hf_name, part in zip(hf_names, parts, strict=True):
                assert part.shape == theirs[hf_name].shape, name
                theirs[hf_name].copy_(torch.from_numpy(np.ascontiguousarray(part)))
    return model


def export(model, read):
    """`read` of every parameter, by Tessera's names and in its layouts."""
    table, theirs = parameters_of(model)
    return {
        name: np.stack([read(theirs[part]).detach().numpy() for part in hf_names]).reshape(shape)
        for name, (shape, hf_names) in table.items()
    }


def outputs(model, batch):
    """The logits of the batch, without a loss."""
    inputs = ("input_ids", "token_type_ids", "attention_mask")
    return model(**{key: torch.from_numpy(batch[key]).long() for key in inputs})


def mean_loss(logits, labels):
    assert logits.dtype == torch.float64
    # Not model(labels=...), which may round the logits to float32.
    labels = torch.from_numpy(labels).long()
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=-1
    )


def pretraining(model, batch):
    made = outputs(model, batch)
    return {
        "mlm_logits": made.prediction_logits,  # (B, T, V)
        "next_sentence_logits": made.seq_relationship_logits,  # (B, 2)
        "mlm_loss": mean_loss(made.prediction_logits, batch["labels"]),
        "next_sentence_loss": mean_loss(made.seq_relationship_logits, batch["next_sentence_label"]),
    }


def masked_lm(model, batch):
    """Like RoBERTa, without next sentences; the caller makes sure that token types add nothing."""
    logits = outputs(model, batch).logits
    return {"mlm_logits": logits, "mlm_loss": mean_loss(logits, batch["labels"])}


def classification(model, batch):
    logits = outputs(model, batch).logits
    return {"logits": logits, "loss": mean_loss(logits, batch["classes"])}  # logits (B, CLASSES)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def plain_encoder(weights, batch):
    hidden = batch["attention_mask"][:, None, None, :] == 0  # (B, 1, 1, T)
    x = weights["embedding.word"][batch["input_ids"]] + weights["embedding.position"]  # (B, T, C)
    x = x + weights["embedding.token_type"][batch["token_type_ids"]]
    x = layer_norm(x, weights, "embedding.norm", LAYER_NORM_EPS)
    for i in range(LAYERS):
        block = f"blocks.{i}."
        attended = attention(x, weights, block + "attention", HEADS, hidden)
        x = layer_norm(x + attended, weights, block + "attention_norm", LAYER_NORM_EPS)
        down = linear(gelu(linear(x, weights, block + "mlp.up")), weights, block + "mlp.down")
        x = layer_norm(x + down, weights, block + "mlp_norm", LAYER_NORM_EPS)
    return x


def plain_mlm_logits(x, weights):
    transformed = gelu(linear(x, weights, "head.transform"))
    normed = layer_norm(transformed, weights, "head.norm", LAYER_NORM_EPS)
    return normed @ weights["embedding.word"].T + weights["head.bias"]


def plain_document_logits(x, weights, name):
    return linear(np.tanh(linear(x[:, 0], weights, "pooler")), weights, name)


def plain_masked_lm(weights, batch):
    logits = plain_mlm_logits(plain_encoder(weights, batch), weights)
    return {"mlm_logits": logits, "mlm_loss": cross_entropy(logits, batch["labels"])}


def plain_pretraining(weights, batch):
    x = plain_encoder(weights, batch)
    mlm_logits = plain_mlm_logits(x, weights)
    next_sentence_logits = plain_document_logits(x, weights, "next_sentence")
    return {
        "mlm_logits": mlm_logits,
        "next_sentence_logits": next_sentence_logits,
        "mlm_loss": cross_entropy(mlm_logits, batch["labels"]),
        "next_sentence_loss": cross_entropy(next_sentence_logits, batch["next_sentence_label"]),
    }


def plain_classification(weights, batch):
    logits = plain_document_logits(plain_encoder(weights, batch), weights, "classifier")
    return {"logits": logits, "loss": cross_entropy(logits, batch["classes"])}


def total_loss(made):
    return sum(value for key, value in made.items() if key.endswith("loss"))


def run(model, compute, plain, weights, batch):
    """The results of the model, with all gradients of the sum of its losses.

    Fails unless plain numpy agrees: forward to rounding, gradients by central differences.
    """
    made = compute(model, batch)
    total_loss(made).backward()
    grads = export(model, lambda p: p.grad)
    made = {key: value.detach().numpy() for key, value in made.items()}
    real = batch["attention_mask"] == 1
    again = plain(weights, batch)
    for key, value in made.items():
        if key == "mlm_logits":  # (N, V): what comes out at padding means nothing
            made[key], again[key] = value[real], again[key][real]
        np.testing.assert_allclose(made[key], again[key], rtol=1e-12, atol=1e-12, err_msg=key)
    confirm_gradients(lambda changed: total_loss(plain(changed, batch)), weights, grads, SEED + 1)
    return made | {f"grad/{name}": value for name, value in grads.items()}


def make_goldens():
    weights, batch = draw_inputs()
    model = build_model(BertForPreTraining, weights)
    truth = run(model, pretraining, plain_pretraining, weights, batch)
    losses, grad_norms = train(model, lambda m: total_loss(pretraining(m, batch)))
    truth |= {"losses": losses, "grad_norms": grad_norms}
    truth |= {f"trained/{name}": value for name, value in export(model, lambda p: p).items()}
    truth |= {f"weight/{name}": value for name, value in weights.items()}

    without_types = weights | {"embedding.token_type": np.zeros((TOKEN_TYPES, C))}
    model = build_model(BertForMaskedLM, without_types)
    made = run(model, masked_lm, plain_masked_lm, without_types, batch)
    del made["grad/embedding.token_type"]
    truth |= {f"masked_lm/{key}": value for key, value in made.items()}

    model = build_model(BertForSequenceClassification, weights)
    made = run(model, classification, plain_classification, weights, batch)
    truth |= {f"classification/{key}": value for key, value in made.items()}

    return {key: golden_file.rounded(value) for key, value in truth.items()} | batch


if __name__ == "__main__":
    sys.exit(golden_file.main(__doc__, GOLDEN, make_goldens))
