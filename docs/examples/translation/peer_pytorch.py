#!/usr/bin/env python3
"""Trains the model of translation.yaml in PyTorch, from the same pairs, tokenizer, batch size and learning rates, and
writes its translations of the held-out verses.

    peer_pytorch.py FOLDER --minutes M
    peer_pytorch.py FOLDER --steps N

FOLDER is what run.sh wrote. The learning rate falls to zero over M minutes of CPU time on each core, or over N steps.
Each batch is padded to its longest text. Writes FOLDER/pytorch.tsv. Needs torch and tokenizers.
"""

import argparse
import math
import pathlib
import random
import sys
import time

import torch
import torch.nn.functional as F
from tokenizers import ByteLevelBPETokenizer
from torch import nn

LAYERS, WIDTH, HEADS, LENGTH, BATCH, WARMUP_STEPS, PEAK_LR = 3, 128, 4, 200, 64, 200, 2.0e-3
INIT_STDDEV = 0.05
PAD = -1


class Translator(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.ModuleList(nn.Embedding(LENGTH, WIDTH) for _ in range(2))
        shape = dict(
            d_model=WIDTH, nhead=HEADS, dim_feedforward=4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True,
            activation=lambda x: F.gelu(x, approximate="tanh"),
        )  # fmt: skip
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**shape), LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), LAYERS, nn.LayerNorm(WIDTH))
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                branch = name.endswith(("out_proj.weight", "linear2.weight"))  # what a residual sum adds
                nn.init.normal_(parameter, std=INIT_STDDEV / math.sqrt(2 * LAYERS) if branch else INIT_STDDEV)

    def embed(self, ids, stack):
        return self.tokens(ids.clamp(min=0)) + self.positions[stack].weight[: ids.shape[1]]

    def encode(self, source):
        return self.encoder(self.embed(source, 0), src_key_padding_mask=source == PAD)

    def decode(self, target, memory, source):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).isinf()
        x = self.decoder(
            self.embed(target, 1), memory, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=source == PAD
        )
        return x @ self.tokens.weight.T


def padded(texts):
    return nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True, padding_value=PAD)


def read(path, tokenizer, end):
    lines = path.read_text().splitlines()[1:]
    return [[tokenizer.encode(text).ids[: LENGTH - 1] + [end] for text in line.split("\t")] for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--minutes", type=float, default=math.inf)
    budget.add_argument("--steps", type=int, default=sys.maxsize)
    options = parser.parse_args()
    folder, cores = options.folder, torch.get_num_threads()
    tokenizer = ByteLevelBPETokenizer(str(folder / "bpe/vocab.json"), str(folder / "bpe/merges.txt"))
    vocabulary = tokenizer.get_vocab_size()
    end = tokenizer.token_to_id("<|endoftext|>")
    train, held_out = (read(folder / f"{name}.tsv", tokenizer, end) for name in ("train", "eval"))
    torch.manual_seed(1)
    random.seed(1)
    model = Translator(vocabulary)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        betas=(0.9, 0.95), fused=True,
    )  # fmt: skip

    def loss_of(pairs):
        source, target = padded([p[0] for p in pairs]), padded([p[1] for p in pairs])
        inputs = F.pad(target[:, :-1].clamp(min=0), (1, 0), value=end)
        logits = model.decode(inputs, model.encode(source), source)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)

    order, step, used = [], 0, 0.0
    begin = time.process_time()
    while step < options.steps and used < 60 * options.minutes:
        if not order:
            order = random.sample(range(len(train)), len(train))
        batch, order = order[:BATCH], order[BATCH:]
        step += 1
        progress = max(step / options.steps, used / (60 * options.minutes))
        lr = PEAK_LR * min(1.0, step / WARMUP_STEPS) * 0.5 * (1 + math.cos(math.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss = loss_of([train[i] for i in batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        used = (time.process_time() - begin) / cores
        if step % 100 == 0:
            print(f"step {step}  loss {loss.item():.4f}  {used / 60:.2f} minutes of {cores} cores", flush=True)
    print(f"{step} steps, {step * BATCH / len(train):.2f} epochs, {used / 60:.2f} minutes of {cores} cores")

    model.eval()
    with torch.no_grad():
        tokens = sum(len(p[1]) for p in held_out)
        loss = sum(loss_of([pair]).item() * len(pair[1]) for pair in held_out) / tokens
        print(f"held-out loss {loss:.4f}")
        lines = ["target\n"]
        for source, _ in held_out:
            source = torch.tensor([source])
            memory, ids = model.encode(source), [end]
            while len(ids) < LENGTH:
                ids.append(model.decode(torch.tensor([ids]), memory, source)[0, -1].argmax().item())
                if ids[-1] == end:
                    break
            lines.append(tokenizer.decode([i for i in ids if i != end]) + "\n")
    (folder / "pytorch.tsv").write_text("".join(lines))


if __name__ == "__main__":
    main()
