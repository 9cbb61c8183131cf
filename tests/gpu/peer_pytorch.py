#!/usr/bin/env python3
"""Measures models in PyTorch on this machine's GPU, as check.sh measures them in Tessera, or on its CPU: bf16
autocast or fp32, scaled_dot_product_attention, torch.compile, fused AdamW, a clipped gradient norm, a vocabulary
rounded up to 64. BERT learns masked tokens alone, as there. Llama, ModernBERT, T5 and ViT are transformers' own
classes.

    peer_pytorch.py MODEL --seq-length T --batch ROWS [--steps N] [--seconds S] [--device cpu]
                    [--compile model|blocks|none] [--lengths full|around_half]

To compile the whole model takes longer than to compile one block, which serves for all, and the head. With
--lengths around_half, sequences have T/4 to 3T/4 tokens and are padded to the longest of their batch or, for a
compiled model, to 3T/4. T5 has sources and targets of T tokens, and its target tokens are counted; ViT has images of
T - 1 patches.

A line of JSON: tokens_per_second without padding (the median of the steps after the warm-up, of which three at a
time are waited for), model_flops_per_second, mfu where the GPU's peak is known, memory_gib of the whole GPU. FLOPs
are counted as by launch/metrics/model_flops.h, for the models that this file describes.
"""

import argparse
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("peer_pytorch.py needs PyTorch, which this Python has not: install torch, or leave this out")

# (kind, layers, width, heads, vocabulary)
MODELS = {
    "gpt2_124m": ("gpt", 12, 768, 12, 50257),
    "gpt2_350m": ("gpt", 24, 1024, 16, 50257),
    "gpt2_1.5b": ("gpt", 48, 1600, 25, 50257),
    "bert_base": ("bert", 12, 768, 12, 30522),
    "bert_large": ("bert", 24, 1024, 16, 30522),
    "gpt_shakespeare": ("gpt", 4, 128, 4, 257),
    "tiny_gpt": ("gpt", 2, 64, 4, 257),
    "tiny_bert": ("bert", 2, 64, 4, 257),
}
WITHOUT_BIASES = {"gpt_shakespeare"}
# Models of transformers, as arguments of their configuration.
TRANSFORMERS = {
    "llama_100m": (
        "LlamaForCausalLM", "LlamaConfig",
        {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "num_key_value_heads": 4,
         "intermediate_size": 2048, "vocab_size": 32000, "tie_word_embeddings": True},
    ),
    "modernbert_base": (
        "ModernBertForMaskedLM", "ModernBertConfig", {"vocab_size": 50368},  # the defaults are those of the base model
    ),
    "t5_small": (
        "T5ForConditionalGeneration", "T5Config",
        {"vocab_size": 32128, "dropout_rate": 0.0, "decoder_start_token_id": 0},
    ),
    "vit_base": ("ViTForImageClassification", "ViTConfig", {"num_labels": 1000}),
}
TOGETHER = 3  # steps that are timed as one
MASKED = 0.15  # of BERT's tokens have a target
# Dense bf16 TFLOP/s, as in launch/metrics/gpu_peaks.cpp; longer names first.
PEAKS = {
    "GB200": 2500, "B200": 2250, "H100 PCIe": 756, "H100 NVL": 835, "GH200": 989, "H100": 989, "H200": 989,
    "A100": 312, "A800": 312, "H800": 989, "L40S": 362, "L4": 121, "A40": 149.7, "A10": 125,
}


class Block(nn.Module):
    def __init__(self, width, heads, causal, dropout, bias):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.up, self.down = nn.Linear(width, 4 * width, bias=bias), nn.Linear(4 * width, width, bias=bias)
        self.gelu = nn.GELU(approximate="tanh" if causal else "none")  # GPT-2's, BERT's

    def attention(self, x):
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.dropout)
        return F.dropout(self.out(y.transpose(1, 2).reshape(rows, length, width)), self.dropout)

    def mlp(self, x):
        return F.dropout(self.down(self.gelu(self.up(x))), self.dropout)

    def forward(self, x):
        if self.causal:  # normalised before each part
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))  # and after it
        return self.norm2(x + self.mlp(x))


class Head(nn.Module):
    """The loss of the final features and the table of words."""

    def __init__(self, is_bert, width, vocabulary, bias):
        super().__init__()
        self.is_bert = is_bert
        if is_bert:
            self.transform, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
            self.bias = nn.Parameter(torch.zeros(vocabulary))
        else:
            self.norm = nn.LayerNorm(width, bias=bias)

    def forward(self, x, table, places, targets):
        if not self.is_bert:
            return F.cross_entropy(F.linear(self.norm(x), table).flatten(0, 1), targets.flatten())
        chosen = self.norm(F.gelu(self.transform(x.flatten(0, 1)[places])))
        return F.cross_entropy(F.linear(chosen, table, self.bias), targets)


class Model(nn.Module):
    def __init__(self, kind, layers, width, heads, vocabulary, length, bias=True):
        super().__init__()
        vocabulary = (vocabulary + 63) // 64 * 64
        self.is_bert, self.dropout = kind == "bert", 0.1 if kind == "bert" else 0.0
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            Block(width, heads, not self.is_bert, self.dropout, bias) for _ in range(layers)
        )
        self.head = Head(self.is_bert, width, vocabulary, bias)
        if self.is_bert:
            self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, visible, places, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        if self.is_bert:
            x = F.dropout(self.norm(x + self.types(torch.zeros_like(tokens))), self.dropout)
        for block in self.blocks:
            x = block(x)
        return self.head(x, self.tokens.weight, places, targets)

    def compile_parts(self, parts):
        """`parts` is model, blocks or none."""
        if parts == "model":
            self.compile()
        elif parts == "blocks":
            for part in [*self.blocks, self.head]:
                part.compile()


class TransformersModel(nn.Module):
    def __init__(self, name, **arguments):
        super().__init__()
        import transformers

        model_class, config_class, shape = TRANSFORMERS[name]
        config = getattr(transformers, config_class)(attn_implementation="sdpa", **shape, **arguments)
        self.model = getattr(transformers, model_class)(config)
        self.is_bert = model_class.endswith("MaskedLM")
        self.vocabulary = shape.get("vocab_size")

    def compile_parts(self, parts):
        if parts == "model":
            self.compile()
        elif parts == "blocks":
            for part in self.model.model.layers:
                part.compile()


class TransformersTextModel(TransformersModel):
    def forward(self, tokens, visible, places, targets):
        """`visible` is None, or 1 for tokens and 0 for padding."""
        if not self.is_bert:
            logits = self.model(tokens, attention_mask=visible, use_cache=False).logits
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        x = self.model.model(tokens, attention_mask=visible).last_hidden_state
        chosen = self.model.head(x.flatten(0, 1)[places])
        return F.cross_entropy(self.model.decoder(chosen), targets)


class T5(TransformersModel):
    def forward(self, source, visible, targets):
        return self.model(input_ids=source, attention_mask=visible, labels=targets).loss

    def batch(self, rows, lengths):
        """`lengths(rows)` draws lengths and the mask of their tokens. Returns the number of target tokens too."""
        (_, visible), (count, in_target) = lengths(rows), lengths(rows)
        draw = lambda mask: torch.randint(self.vocabulary, mask.shape, device=mask.device)  # noqa: E731
        return count, (draw(visible), visible.long(), draw(in_target).masked_fill(~in_target, -100))


class ViT(TransformersModel):
    def forward(self, pixels, classes):
        return self.model(pixels, labels=classes).loss

    def batch(self, rows, lengths):
        count, mask = lengths(rows)
        config = self.model.config
        pixels = torch.randn(rows, config.num_channels, config.image_size, config.image_size, device=mask.device)
        return count, (pixels, torch.randint(config.num_labels, (rows,), device=mask.device))


def step_flops(kind, layers, width, vocabulary, rows, length, targets):
    tokens = rows * length
    head = vocabulary * width + (width * width if kind == "bert" else 0)
    # Behind the last attention, model_flops.h counts only rows that a head reads. PyTorch computes all.
    read = targets + (rows if kind == "bert" else 0)
    not_read = tokens - read if 2 * read <= tokens else 0
    weights = 12 * layers * width**2 * tokens - 9 * width**2 * not_read + head * targets
    return 6 * weights + 12 * layers * width * tokens * length


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", choices=[*MODELS, *TRANSFORMERS])
    parser.add_argument("--seq-length", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=30, help="after the warm-up")
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60, help="no step begins so long after the warm-up")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--compile", choices=["model", "blocks", "none"], default="model")
    parser.add_argument("--lengths", choices=["full", "around_half"], default="full")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        sys.exit("peer_pytorch.py finds no GPU; --device cpu measures the CPU")

    torch.manual_seed(1)
    rows, length = options.batch, options.seq_length
    if options.model in MODELS:
        kind, layers, width, heads, vocabulary = MODELS[options.model]
        bias = options.model not in WITHOUT_BIASES
        model = Model(kind, layers, width, heads, vocabulary, length, bias)
    elif options.model == "t5_small":
        model = T5(options.model)
    elif options.model == "vit_base":
        model = ViT(options.model)
        patches = (model.model.config.image_size // model.model.config.patch_size) ** 2
        if length != patches + 1:
            sys.exit(f"{options.model} has {patches} patches and a class token, so choose --seq-length {patches + 1}")
    else:
        model = TransformersTextModel(options.model, max_position_embeddings=length)
        vocabulary = model.vocabulary
    padded = options.lengths == "around_half"
    if padded and not (isinstance(model, T5) or isinstance(model, TransformersModel) and model.is_bert):
        sys.exit(f"--lengths around_half measures encoders of transformers and T5, and {options.model} is none")
    model = model.to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    model.compile_parts(options.compile)
    tokens = rows * length // (2 if padded else 1)  # per step, on average
    count = round(MASKED * tokens) if model.is_bert else tokens
    compiled = options.compile != "none"

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    def lengths_of(rows):
        """The sum of random lengths, and a mask (rows, longest) of their tokens."""
        if not padded:
            return rows * length, torch.ones(rows, length, dtype=torch.bool, device=options.device)
        lengths = torch.randint(length // 4, length * 3 // 4 + 1, (rows,), device=options.device)
        longest = length * 3 // 4 if compiled else int(lengths.max())
        return int(lengths.sum()), torch.arange(longest, device=options.device) < lengths[:, None]

    def batch():
        """The number of tokens, and the arguments of forward()."""
        if isinstance(model, (T5, ViT)):
            return model.batch(rows, lengths_of)
        draw = lambda high, shape: torch.randint(high, shape, device=options.device)  # noqa: E731
        targets = draw(vocabulary, (count,) if model.is_bert else (rows, length))
        if not padded:
            places = torch.randperm(rows * length, device=options.device)[:count]
            return rows * length, (draw(vocabulary, (rows, length)), None, places, targets)
        total, mask = lengths_of(rows)
        visible = mask.long()
        places = visible.flatten().nonzero().flatten()
        places = places[torch.randint(len(places), (count,), device=options.device)]
        return total, (draw(vocabulary, visible.shape), visible, places, targets)

    def step(arguments):
        with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model(*arguments)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    def timed_steps():
        batches = [batch() for _ in range(TOGETHER)]
        wait()
        start = time.monotonic()
        for _, arguments in batches:
            loss = step(arguments)
        wait()
        return sum(tokens for tokens, _ in batches) / (time.monotonic() - start), loss

    for _ in range(options.warm_up):
        step(batch()[1])
    wait()
    began, speeds = time.monotonic(), []
    while not speeds or (len(speeds) * TOGETHER < options.steps and time.monotonic() - began < options.seconds):
        speed, loss = timed_steps()
        speeds.append(speed)

    tokens_per_second = statistics.median(speeds)
    flops = None
    if options.model in MODELS:
        flops = step_flops(kind, layers, width, vocabulary, rows, length, count) * tokens_per_second / tokens
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    free, total = torch.cuda.mem_get_info() if on_gpu else (0, 0)
    memory = total - free  # as nvidia-smi counts: it keeps what it has reserved
    peak = next((1e12 * peak for part, peak in PEAKS.items() if part in name), None)
    result = {
        "model": options.model,
        "seq_length": length,
        "batch": rows,
        "steps": len(speeds) * TOGETHER,
        "tokens_per_second": tokens_per_second,
        "model_flops_per_second": flops,
        "mfu": flops / peak if flops and peak else None,
        "memory_gib": memory / 2**30 if on_gpu else None,
        "loss": loss.item(),
        "device": name,
        "precision": options.precision,
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
