#!/usr/bin/env python3
"""Measures what a training step sends between hosts, which are network namespaces (hosts.py), and how long it takes.

    tests/hosts/wire.py build/emulated/tessera [--other NAME=BINARY] [--rate 200mbit] [--hosts 2 4] [--trials 3]

Trains a small GPT on hosts with 2 data ranks each, with and without ZeRO, or with 2 context ranks each, over links that
send at most RATE, and prints a Markdown table. Ways:

    two levels     as the program does it: the ranks of a host sum directly, and then exchange sums with other hosts
    flat           the ranks of a host may not copy from each other, so each exchanges with all others
    NAME           another program, such as an older one

The bytes of a step are those that all hosts send in it, headers of TCP, IP and Ethernet included, from the difference
of a run of few and a run of more steps. The least are those of the gradients, and with ZeRO-1 also of the weights,
that any algorithm must send; with ZeRO-3, blocks are gathered in both passes, but for the last two in the backward
pass; with context ranks, keys and values are gathered in both passes, and their gradients summed. Needs root and a C compiler.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from hosts import Hosts, unsupported_reason

SHORT, LONG = 2, 6  # steps of the two runs
CONFIG = """
run: {{dir: {folder}/run}}
model: {{num_layers: 4, hidden_size: 256, num_heads: 4, seq_length: 64}}
data: {{train: {folder}/data}}
batch: {{global: 8}}
train: {{steps: {steps}}}
checkpoint: {{interval: 0}}
log: {{interval: 1}}
"""
ALL_RANKS = "all ranks"
LAYOUTS = {
    "data": {},
    "data, ZeRO-1": {"parallel.zero": 1},
    "data, ZeRO-3": {"parallel.zero": 3},
    "data, shards of a host": {"parallel.zero": 3, "parallel.shard": 2},
    "data, bf16 gradients": {"parallel.grad_reduce_dtype": "bf16"},
    "context": {"parallel.context": ALL_RANKS},
}
LAYERS, WIDTH, TOKENS = 4, 256, 8 * 64
BLOCK = 12 * WIDTH**2 + 13 * WIDTH  # parameters


def least_bytes(keys, hosts, parameters):
    """Of a step with one micro-batch, over all hosts."""
    element = 2 if "parallel.grad_reduce_dtype" in keys else 4
    whole = (hosts - 1) * parameters * element  # of a gather, or of a reduce-scatter
    if "parallel.context" in keys:
        return 2 * whole + 3 * (hosts - 1) * LAYERS * TOKENS * 2 * WIDTH * 4
    if keys.get("parallel.zero") != 3:
        return 2 * whole
    if "parallel.shard" in keys:  # within a host; between them, only an all-reduce of the shards
        return 2 * whole
    return 2 * whole + (hosts - 1) * (LAYERS - 2) * BLOCK * element


def prepare(binary, folder):
    text = "".join(f"{i} times {i % 7} is {i * (i % 7)}, and that is all.\n" for i in range(1000))
    (folder / "text.txt").write_text(text)
    (folder / "run.yaml").write_text(CONFIG.format(folder=folder, steps=LONG))
    subprocess.run([binary, "prepare", "--append-eod", "--input", folder / "text.txt", "--output", folder / "data"],
                   check=True, capture_output=True)
    library = folder / "no_copies.so"
    source = pathlib.Path(__file__).with_name("no_copies.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return ["env", f"LD_PRELOAD={library}", "OMPI_MCA_btl_vader_single_copy_mechanism=none"]


def train(hosts, folder, words, steps, keys):
    """Runs; returns the bytes that all hosts sent, and the milliseconds of each step."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    command = [*words, "train", str(folder / "run.yaml"), "--set", f"train.steps={steps}"]
    ranks = 2 * len(hosts.names)
    for key, value in keys.items():
        command += ["--set", f"{key}={ranks if value == ALL_RANKS else value}"]
    sent = sum(hosts.sent_bytes(host) for host in range(len(hosts.names)))
    done = hosts.mpirun(ranks, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = done.communicate(timeout=300)[0]
    if done.returncode != 0:
        sys.exit(f"{command} has failed:\n{output}")
    sent = sum(hosts.sent_bytes(host) for host in range(len(hosts.names))) - sent
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    return sent, [line["step_ms"] for line in map(json.loads, lines) if "step_ms" in line]


def parameters(binary, folder):
    report = subprocess.run([binary, "plan", folder / "run.yaml", "--ranks", "1", "--json"], check=True, capture_output=True, text=True)
    return json.loads(report.stdout)["parameters"]["global"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--other", default="", metavar="NAME=BINARY")
    parser.add_argument("--rate", default="200mbit", help="of each link, as for tc")
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--trials", type=int, default=1)
    options = parser.parse_args()
    reason = unsupported_reason()
    if reason:
        print(f"the wire was NOT measured: {reason}")
        return 77
    binary = str(pathlib.Path(options.binary).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flat = prepare(binary, folder)
        ways = {"two levels": [binary], "flat": [*flat, binary]}
        if options.other:
            other, path = options.other.split("=")
            ways[other] = [str(pathlib.Path(path).resolve())]
        numbers = parameters(binary, folder)
        print(f"{numbers:,} parameters; links of {options.rate}\n")
        print("| hosts × ranks | layout | way | MB a step | of the least | s a step |\n|---|---|---|--:|--:|--:|", flush=True)
        for count in options.hosts:
            with Hosts(count) as hosts:
                for host in range(count):
                    hosts.limit(host, options.rate)
                for layout, keys in LAYOUTS.items():
                    least = least_bytes(keys, count, numbers)
                    found = {way: [] for way in ways}
                    for _ in range(options.trials):  # the ways take turns
                        for way, words in ways.items():
                            short, _ = train(hosts, folder, words, SHORT, keys)
                            long, times = train(hosts, folder, words, LONG, keys)
                            found[way].append(((long - short) / (LONG - SHORT), statistics.median(times[1:])))
                    for way, trials in found.items():
                        sent = statistics.median(sent for sent, _ in trials)
                        seconds = statistics.median(time for _, time in trials) / 1000
                        print(f"| {count} × 2 | {layout} | {way} | {sent / 1e6:.1f} | {sent / least:.2f} | {seconds:.2f} |",
                              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
