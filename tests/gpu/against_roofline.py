#!/usr/bin/env python3
"""Compares profiled steps with their roofline, by kind of op.

    tests/gpu/against_roofline.py RESULTS.json [TESSERA]

Reads the profiles that check.sh's part `profile` measured, asks TESSERA (build/cpu/tessera) for the roofline of the
same configurations, and prints a table in Markdown. The names of kernels and ops say of which kind they are.
"""
import collections
import json
import os
import re
import subprocess
import sys

# kind | kernels | ops of the roofline. The first match counts.
KINDS = [
    ("attention", r"^(keys|queries|delta|bias)_kernel|^forward_kernel<Mma|sdpa|cudnn", r"^attention_"),
    ("linear layers, with GELU and biases", r"nvjet|gemm|cublasLt|Gelu|column_sum|^add_pieces_kernel$",
     r"^(linear|activation|tanh)_"),
    ("norms, residual, dropout", r"^(backward|forward)_kernel<(true|false)|dropout|<8, Sum,", r"norm|dropout|^add$"),
    ("loss", r"with_gradient|loss_kernel|merge_runs", r"^cross_entropy"),
    ("optimizer", r"adamw|squares|clip_scale|add_partials", r"^(add_sum_of_squares|clip_scale|adamw_step)$"),
    ("other", "", ""),
]
ROWS = 32  # of check.sh's profiles: the shipped micro-batch, once


def kind_of(name, column):
    return next(kind for kind in KINDS if re.search(kind[column], name))[0]


def bounds(tessera, model, gpu):
    plan = [tessera, "plan", f"configs/{model}.yaml", "--ranks", "1", "--roofline", "--gpu", gpu, "--json"]
    for setting in (f"batch.global={ROWS}", f"batch.micro={ROWS}", "parallel.zero=0"):
        plan += ["--set", setting]
    answer = json.loads(subprocess.run(plan, check=True, capture_output=True, text=True).stdout)
    sums = collections.Counter()
    for op in answer["ops"]:
        sums[kind_of(op["op"], 2)] += 1e3 * op["seconds"]
    return sums


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    file, tessera = sys.argv[1], os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build/cpu/tessera")
    with open(file) as text:
        results = json.load(text)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    gpu = results["card"].split()[1]
    steps, kernels = {}, collections.defaultdict(collections.Counter)
    for row in results["measured"]:
        if row["what"] == "step":
            steps[row["model"]] = row
        elif row["what"] == "profile":
            kernels[row["model"]][kind_of(row["kernel"], 1)] += row["microseconds"] / 1e3
    print("| | " + " | ".join(f"{model}: bound, ms | measured, ms | " for model in steps) + " |")
    print("|---|" + "--:|--:|--:|" * len(steps))
    known = {model: bounds(tessera, model, gpu) for model in steps}
    for kind, _, _ in KINDS:
        cells = []
        for model in steps:
            bound, measured = known[model][kind], kernels[model][kind]
            cells.append(f"{bound:.2f} | {measured:.2f} | {measured / bound:.1f}")
        print(f"| {kind} | " + " | ".join(cells) + " |")
    cells = []
    for model, step in steps.items():
        bound, measured = known[model].total(), step["microseconds"] / 1e3
        cells.append(f"{bound:.2f} | {measured:.2f} | {measured / bound:.1f}")
    print("| the step, pauses included | " + " | ".join(cells) + " |")


main()
