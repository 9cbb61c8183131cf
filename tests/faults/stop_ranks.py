#!/usr/bin/env python3
"""Stops ranks of small runs with SIGSTOP at random moments, and counts how often the report of the hang names them.

    tests/faults/stop_ranks.py build/emulated/tessera [--trials N] [--seed N] [--timeout SECONDS]

For each layout, N runs: one random rank is stopped after a random time, and the run must end within run.hang_timeout +
10 seconds, with exit code 75 and a report that names this rank, and no other, as stopped. Prints a Markdown table, and
the output of each run that failed.
"""
import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
run: {{dir: {folder}/run, hang_timeout: {timeout}, device: {device}}}
model: {{num_layers: 2, hidden_size: 32, num_heads: 4, seq_length: 16, vocab_size: 257}}
data: {{train: {folder}/data}}
parallel: {{tensor: {tensor}, zero: {zero}, sequence: {sequence}}}
batch: {{global: 8, micro: 2}}
train: {{steps: 1000000, recompute: {recompute}}}
checkpoint: {{interval: {save}}}
log: {{interval: 1}}
"""

# name: ranks, and what differs from the defaults
LAYOUTS = {
    "2 data": (2, {}),
    "2 tensor": (2, {"tensor": 2}),
    "2 data × 2 tensor": (4, {"tensor": 2}),
    "4 data, ZeRO-1": (4, {"zero": 1}),
    "2 data × 2 tensor, ZeRO-1, sequence, recomputation":
        (4, {"tensor": 2, "zero": 1, "sequence": "true", "recompute": "block"}),
    "2 data × 2 tensor, a save at each 5th step": (4, {"tensor": 2, "save": 5}),
}
if_gpus = {
    "2 data × 2 tensor on 4 emulated GPUs, NCCL":
        (4, {"tensor": 2, "device": "cuda", "environment": {"TESSERA_EMULATOR_DEVICES": "4"}}),
    "2 data × 2 tensor on 1 emulated GPU, staged":
        (4, {"tensor": 2, "device": "cuda", "environment": {"TESSERA_EMULATOR_DEVICES": "1"}}),
}


def processes_of(binary, folder):
    """The process of each rank."""
    status = subprocess.run([binary, "status", f"{folder}/run"], capture_output=True, text=True).stdout
    return {int(rank): int(process) for rank, process in re.findall(r"rank (\d+) \(host \S+, process (\d+)\)", status)}


def trial(binary, ranks, options, timeout):
    """Returns (seconds from the stop to the end, "" or what was wrong, output)."""
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(f"{i} times {i % 7} is {i * (i % 7)}, and that is all.\n" for i in range(100))
        pathlib.Path(folder, "text.txt").write_text(text)
        values = {"tensor": 1, "zero": 0, "sequence": "false", "recompute": "none", "save": 0, "device": "cpu", **options}
        pathlib.Path(folder, "config.yaml").write_text(CONFIG.format(folder=folder, timeout=timeout, **values))
        subprocess.run([binary, "prepare", "--append-eod", "--input", f"{folder}/text.txt", "--output", f"{folder}/data"],
                       check=True, capture_output=True)
        output = pathlib.Path(folder, "output")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": folder, **options.get("environment", {})}
        command = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-np", str(ranks), binary, "train",
                   f"{folder}/config.yaml"]
        with open(output, "w") as file:
            run = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        start = time.monotonic()
        while not re.search(r"step +5/", output.read_text()):
            if run.poll() is not None or time.monotonic() - start > 120:
                run.kill()
                return 0.0, "did not start", output.read_text()
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 1.0))
        rank = random.randrange(ranks)
        process = processes_of(binary, folder)[rank]
        os.kill(process, signal.SIGSTOP)
        start = time.monotonic()
        try:
            code = run.wait(timeout + 30)
        except subprocess.TimeoutExpired:
            os.kill(process, signal.SIGKILL)
            run.terminate()
            run.wait()
            code = -1
        seconds = time.monotonic() - start
        text = output.read_text()
        report = text.partition("the run hangs")[2].partition("the other ranks:")[0]
        named = re.findall(r"^  rank (\d+) \(", report, re.MULTILINE)
        problems = []
        if code != 75:
            problems.append(f"exit code {code}")
        if text.count("the run hangs") != 1:
            problems.append(f"{text.count('the run hangs')} reports")
        if named != [str(rank)]:
            problems.append(f"named {named} instead of {rank}")
        if "its process is stopped (state T)" not in report:
            problems.append("did not say that it is stopped")
        if seconds > timeout + 10:
            problems.append(f"took {seconds:.1f} s")
        return seconds, ", ".join(problems), text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=3)
    parser.add_argument("--gpus", action="store_true", help="also runs on the emulated GPU")
    options = parser.parse_args()
    random.seed(options.seed)
    print("| layout | stopped | named correctly | slowest, s after the stop |\n|---|--:|--:|--:|", flush=True)
    layouts = {**LAYOUTS, **(if_gpus if options.gpus else {})}
    failed = []
    for name, (ranks, changes) in layouts.items():
        right, slowest = 0, 0.0
        for _ in range(options.trials):
            seconds, problem, text = trial(options.binary, ranks, changes, options.timeout)
            slowest = max(slowest, seconds)
            right += not problem
            if problem:
                failed.append(f"{name}: {problem}\n{text[-6000:]}")
        print(f"| {name} | {options.trials} | {right} | {slowest:.1f} |", flush=True)
    for text in failed:
        print(text, file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
