"""Writes gpt2_golden.safetensors: a tiny GPT-2 computed by Hugging Face and PyTorch in float64.

The C++ parity test loads the file and must find the same logits, loss, gradients and training
steps. README.md says what the file holds, and how to make it again or compare with it.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import golden_file
from adamw_steps import train
from plain_model import attention, confirm_gradients, cross_entropy, layer_norm, linear

GOLDEN = Path(__file__).with_name("gpt2_golden.safetensors")

LAYERS, HEADS, C, V, T, B = 2, 3, 24, 53, 16, 3
LAYER_NORM_EPS = 1e-5
IGNORED = ((0, 0), (0, 7), (1, 15), (2, 3), (2, 4))  # targets that do not count
SEED = 1234


def parameters():
    """Tessera's name -> (Tessera's shape, Hugging Face's name, mean and stddev at the start).

    The standard deviations keep activations near 1, so that attention is neither uniform nor one-hot. No
    bias is 0 and no norm's weight is 1, so that no missing term goes unnoticed.
    """
    table = {
        "embedding.word": ((V, C), "wte.weight", 0.0, 0.4),
        "embedding.position": ((T, C), "wpe.weight", 0.0, 0.4),
    }
    for i in range(LAYERS):
        ours, theirs = f"blocks.{i}.", f"h.{i}."
        table |= {
            ours + "attention_norm.weight": ((C,), theirs + "ln_1.weight", 1.0, 0.3),
            ours + "attention_norm.bias": ((C,), theirs + "ln_1.bias", 0.0, 0.3),
            ours + "attention.qkv.weight": ((3, C, C), theirs + "attn.c_attn.weight", 0.0, 0.25),
            ours + "attention.qkv.bias": ((3, C), theirs + "attn.c_attn.bias", 0.0, 0.3),
            ours + "attention.output.weight": ((C, C), theirs + "attn.c_proj.weight", 0.0, 0.2),
            ours + "attention.output.bias": ((C,), theirs + "attn.c_proj.bias", 0.0, 0.3),
            ours + "mlp_norm.weight": ((C,), theirs + "ln_2.weight", 1.0, 0.3),
            ours + "mlp_norm.bias": ((C,), theirs + "ln_2.bias", 0.0, 0.3),
            ours + "mlp.up.weight": ((4 * C, C), theirs + "mlp.c_fc.weight", 0.0, 0.2),
            ours + "mlp.up.bias": ((4 * C,), theirs + "mlp.c_fc.bias", 0.0, 0.3),
            ours + "mlp.down.weight": ((C, 4 * C), theirs + "mlp.c_proj.weight", 0.0, 0.1),
            ours + "mlp.down.bias": ((C,), theirs + "mlp.c_proj.bias", 0.0, 0.3),
        }
    table["final_norm.weight"] = ((C,), "ln_f.weight", 1.0, 0.3)
    table["final_norm.bias"] = ((C,), "ln_f.bias", 0.0, 0.3)
    return table


def is_conv1d(hf_name):
    """Hugging Face stores these linear weights as (in, out); Tessera stores all of them as (out, in)."""
    return hf_name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight"))


def to_hugging_face(value, hf_name):
    # (3, C, C) and (3, C) are the concatenated q, k and v, (3C, C) and (3C).
    if ".c_attn." in hf_name:
        value = value.reshape(-1, *value.shape[2:])
    return value.T if is_conv1d(hf_name) else value


def to_tessera(value, hf_name, shape):
    return (value.T if is_conv1d(hf_name) else value).reshape(shape)


def draw_inputs():
    """Weights by Tessera's names as float64, tokens and targets (B, T) with -1 for ignored."""
    # RandomState's streams are frozen by numpy's policy; those of newer generators may change.
    random = np.random.RandomState(SEED)
    tokens = random.randint(0, V, size=(B, T)).astype(np.int32)
    targets = random.randint(0, V, size=(B, T)).astype(np.int32)
    for position in IGNORED:
        targets[position] = -1
    weights = {}
    for name, (shape, _, mean, stddev) in parameters().items():
        drawn = mean + stddev * random.standard_normal(shape)
        # The file holds float32, so the computation must start from exactly those values.
        weights[name] = drawn.astype(np.float32).astype(np.float64)
    return weights, tokens, targets


def build_model(weights):
    config = GPT2Config(
        vocab_size=V,
        n_positions=T,
        n_embd=C,
        n_layer=LAYERS,
        n_head=HEADS,
        activation_function="gelu_new",
        layer_norm_epsilon=LAYER_NORM_EPS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    model = GPT2LMHeadModel(config).double().train()
    assert model.lm_head.weight is model.transformer.wte.weight
    theirs = dict(model.transformer.named_parameters())
    assert set(theirs) == {hf_name for _, hf_name, _, _ in parameters().values()}
    with torch.no_grad():
        for name, (_, hf_name, _, _) in parameters().items():
            value = torch.from_numpy(np.ascontiguousarray(to_hugging_face(weights[name], hf_name)))
            assert value.shape == theirs[hf_name].shape, name
            theirs[hf_name].copy_(value)
    return model


def export(model, read):
    """`read` of every parameter, by Tessera's names and in its layouts."""
    theirs = dict(model.transformer.named_parameters())
    return {
        name: to_tessera(read(theirs[hf_name]).detach().numpy().copy(), hf_name, shape)
        for name, (shape, hf_name, _, _) in parameters().items()
    }


def forward(model, tokens, targets):
    """Logits (B, T, V) and the mean loss; a target is at the position that predicts it."""
    logits = model(torch.from_numpy(tokens).long()).logits
    assert logits.dtype == torch.float64
    labels = torch.from_numpy(np.where(targets < 0, -100, targets)).long()
    # Not model(labels=...), which shifts the labels and rounds the logits to float32.
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return logits, loss


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def plain_forward(weights, tokens, targets):
    """The same model from Tessera's weights in plain numpy: logits (B, T, V) and the mean loss."""
    future = np.triu(np.ones((T, T), dtype=bool), k=1)
    x = weights["embedding.word"][tokens] + weights["embedding.position"]  # (B, T, C)
    for i in range(LAYERS):
        block = f"blocks.{i}."
        normed = layer_norm(x, weights, block + "attention_norm", LAYER_NORM_EPS)
        x = x + attention(normed, weights, block + "attention", HEADS, future)
        normed = layer_norm(x, weights, block + "mlp_norm", LAYER_NORM_EPS)
        up = linear(normed, weights, block + "mlp.up")
        x = x + linear(gelu(up), weights, block + "mlp.down")
    final = layer_norm(x, weights, "final_norm", LAYER_NORM_EPS)
    logits = final @ weights["embedding.word"].T
    return logits, cross_entropy(logits, targets)


def confirm(weights, tokens, targets, logits, loss, grads):
    """Fails unless plain numpy agrees: forward to rounding, gradients by central differences."""
    plain_logits, plain_loss = plain_forward(weights, tokens, targets)
    np.testing.assert_allclose(logits, plain_logits, rtol=0, atol=1e-12)
    np.testing.assert_allclose(loss, plain_loss, rtol=1e-13)
    confirm_gradients(
        lambda changed: plain_forward(changed, tokens, targets)[1], weights, grads, SEED + 1
    )


def make_goldens():
    weights, tokens, targets = draw_inputs()
    model = build_model(weights)
    logits, loss = forward(model, tokens, targets)
    loss.backward()
    logits, loss = logits.detach().numpy(), loss.item()
    grads = export(model, lambda p: p.grad)
    confirm(weights, tokens, targets, logits, loss, grads)
    losses, grad_norms = train(model, lambda m: forward(m, tokens, targets)[1])
    trained = export(model, lambda p: p)

    truth = {"logits": logits, "loss": loss, "losses": losses, "grad_norms": grad_norms}
    for kind, group in (("weight", weights), ("grad", grads), ("trained", trained)):
        truth |= {f"{kind}/{name}": value for name, value in group.items()}
    goldens = {key: golden_file.rounded(value) for key, value in truth.items()}
    return goldens | {"tokens": tokens, "targets": targets}


if __name__ == "__main__":
    sys.exit(golden_file.main(__doc__, GOLDEN, make_goldens))
