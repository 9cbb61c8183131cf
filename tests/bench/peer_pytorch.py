#!/usr/bin/env python3
"""Compares training steps with PyTorch's on this machine's CPU: the same models, shapes and optimizer, on all
cores, in turns within one run. PyTorch's figure is the better of eager and torch.compile, both with fused AdamW.
The Python that runs this must have PyTorch.

    peer_pytorch.py BENCH [--models gpt2_124m,llama_100m] [--precisions bf16] [--rounds N] [--json FILE]

BENCH is the program tessera_bench (build/cpu/tests/bench). Prints a Markdown table of the tokens per second, without
padding, and their ratio within a round, as medians over the rounds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

PEER = pathlib.Path(__file__).parents[1] / "gpu" / "peer_pytorch.py"
# Rows, length, lengths and steps per round, as in bench_run.cpp; the names in PEER and in tessera_bench.
MODELS = {
    "gpt2_124m": (4, 256, "full", 4, "gpt2_124m"),
    "bert_base": (8, 128, "full", 4, "bert_base_128"),
    "gpt_shakespeare": (12, 64, "full", 100, "gpt_shakespeare"),
    "llama_100m": (4, 256, "full", 4, "llama_100m"),
    "modernbert_base": (8, 256, "around_half", 4, "modernbert_base_256"),
    "t5_small": (8, 256, "around_half", 4, "t5_small_256"),
    "vit_base": (4, 197, "full", 4, "vit_base"),
}


def lines_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr or done.stdout}")
    return done.stdout


def tessera(bench, model, precision):
    out = lines_of([bench, f"--benchmark_filter=^peer/{MODELS[model][-1]}_{precision}/", "--benchmark_format=json"])
    found = json.loads(out)["benchmarks"]
    if len(found) != 1:
        sys.exit(f"{bench} has {len(found)} benchmarks for {model} in {precision}, not one")
    return found[0]["tokens/s"]


def pytorch(model, precision, compiled):
    rows, length, lengths, steps, _ = MODELS[model]
    command = [sys.executable, str(PEER), model, "--device", "cpu", "--precision", precision]
    command += ["--seq-length", str(length), "--batch", str(rows), "--steps", str(steps), "--warm-up", "2"]
    command += ["--lengths", lengths]
    command += ["--seconds", "300", "--compile", "model" if compiled else "none"]
    return json.loads(lines_of(command).splitlines()[-1])["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    models = options.models.split(",")
    for model in models:
        if model not in MODELS:
            parser.error(f"there is no model {model}: there are {', '.join(MODELS)}")

    results = []
    print("| model | precision | Tessera | PyTorch eager | PyTorch compiled | ratio |\n|---|---|---|---|---|---|")
    for model in models:
        for precision in options.precisions.split(","):
            rounds = []
            for _ in range(options.rounds):
                rounds.append(
                    {
                        "tessera": tessera(options.bench, model, precision),
                        "eager": pytorch(model, precision, False),
                        "compiled": pytorch(model, precision, True),
                    }
                )
            middle = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
            ratio = statistics.median(r["tessera"] / max(r["eager"], r["compiled"]) for r in rounds)
            results.append({"model": model, "precision": precision, "ratio": ratio, "rounds": rounds})
            cells = [f"{middle[key]:,.0f}" for key in ("tessera", "eager", "compiled")]
            print(f"| {model} | {precision} | {' | '.join(cells)} | {ratio:.2f} |", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
