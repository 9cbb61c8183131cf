#!/usr/bin/env python3
"""Compares training steps of several CPU ranks under mpirun with those of one rank on all cores, at the same
global batch: GPT-2 124M, sequences of 256 tokens, 4 sequences per micro-batch.

    ranks.py TESSERA [--ranks 2] [--layouts data,zero,tensor,sequence] [--precisions bf16,fp32]
                     [--micro-batches 1,4] [--rounds 5] [--steps 3] [--mpirun "mpirun ..."] [--json FILE]

TESSERA is the program (build/cpu/tessera). --micro-batches N is the number of micro-batches per step on one rank;
with 1, data ranks use smaller ones, so that the batch is the same. All runs of a case exist at the same time, each
with its memory, and all but one are stopped (SIGSTOP). In a round each continues for some steps in turn, so that
other load on the machine affects all of them about equally. The first step of a turn was interrupted and does not
count. Prints a Markdown table of medians over the rounds: the time of a step, and relative to one rank in the same
round, the tokens per second and the CPU time (user and system) of all ranks.
"""

import argparse
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LENGTH = 256
MICRO = 4
LAYOUTS = {
    "data": {},
    "zero": {"parallel.zero": 1},
    "tensor": {"parallel.tensor": "RANKS"},
    "sequence": {"parallel.tensor": "RANKS", "parallel.sequence": "true"},
}
CONFIG = """
run: {{dir: {dir}, device: cpu, precision: {precision}}}
model: {{num_layers: 12, hidden_size: 768, num_heads: 12, seq_length: {length}, vocab_size: 50257}}
data: {{train: {data}, tokenizer: byte}}
batch: {{global: {batch}, micro: {micro}}}
train: {{steps: 1000000}}
checkpoint: {{background: false}}
log: {{interval: 1}}
"""


def stat_fields(pid):
    """The fields of /proc/PID/stat, starting with the state."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(pid):
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descendants(pid):
    parents = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents.setdefault(int(stat_fields(folder.name)[1]), []).append(int(folder.name))
        except OSError:  # it has ended
            pass
    found = [pid]
    for parent in found:
        found += parents.get(parent, [])
    return found


class Run:
    """A run of `ranks` ranks, which is stopped except during its turns."""

    def __init__(self, name, command, ranks, folder):
        self.name, self.ranks = name, ranks
        self.metrics = folder / "metrics.jsonl"
        self.log = folder.with_suffix(".log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.lines = 0
        self.pids = []
        try:
            self.get_ready(os.path.realpath(command[command.index("train") - 1]))
        except BaseException:
            self.end()
            raise

    def get_ready(self, program):
        self.wait_for(2)  # memory and compiled products come in the first steps
        self.pids = [pid for pid in descendants(self.process.pid) if os.path.realpath(f"/proc/{pid}/exe") == program]
        if len(self.pids) != self.ranks:
            sys.exit(f"{self.name}: {len(self.pids)} ranks were found, not {self.ranks}")
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def wait_for(self, lines):
        """Returns the milliseconds of `lines` more steps, as the run reports them."""
        self.lines += lines
        while True:
            text = self.metrics.read_text(encoding="utf-8") if self.metrics.exists() else ""
            whole = text.split("\n")[:-1]
            if len(whole) >= self.lines:
                return [json.loads(line)["step_ms"] for line in whole[self.lines - lines : self.lines]]
            if self.process.poll() is not None:
                sys.exit(f"{self.name} ended:\n{self.log.read_text(encoding='utf-8')}")
            time.sleep(0.01)

    def turn(self, steps):
        """The median milliseconds and the mean CPU milliseconds of all ranks, over that many steps."""
        self.signal(signal.SIGCONT)
        self.lines = len(self.metrics.read_text(encoding="utf-8").splitlines())
        self.wait_for(1)
        before = sum(map(cpu_seconds, self.pids))
        times = self.wait_for(steps)
        used = sum(map(cpu_seconds, self.pids)) - before
        self.signal(signal.SIGSTOP)
        return statistics.median(times), used / steps * 1e3

    def end(self):
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)  # a signal to stop would save a checkpoint
            if not self.pids:
                self.process.terminate()
        self.process.wait()


def prepare(tessera, folder):
    text = folder / "text.txt"
    generator = random.Random(1)
    text.write_text("".join(generator.choices("abcdefghijklmnopqrstuvwxyz \n", k=4_000_000)))
    command = [tessera, "prepare", "--tokenizer", "byte", "--input", text, "--output", folder / "text"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def start(options, folder, precision, batch, layout):
    ranks = options.ranks if layout else 1
    changes = {key: options.ranks if value == "RANKS" else value for key, value in LAYOUTS.get(layout, {}).items()}
    data_ranks = ranks // changes.get("parallel.tensor", 1)
    run_dir = pathlib.Path(tempfile.mkdtemp(prefix=f"{layout or 'one'}_", dir=folder))
    config = run_dir.with_suffix(".yaml")
    micro = min(MICRO, batch // data_ranks)
    config.write_text(
        CONFIG.format(dir=run_dir, precision=precision, length=LENGTH, data=folder / "text", batch=batch, micro=micro)
    )
    command = [options.tessera, "train", str(config)]
    for key, value in changes.items():
        command += ["--set", f"{key}={value}"]
    if ranks > 1:
        command = shlex.split(options.mpirun) + ["-np", str(ranks)] + command
    return Run(layout or "one rank", command, ranks, run_dir)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--precisions", default="bf16,fp32")
    parser.add_argument("--micro-batches", default="1,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--mpirun", default="mpirun --allow-run-as-root --bind-to none")
    parser.add_argument("--json")
    options = parser.parse_args()
    layouts = options.layouts.split(",")
    for layout in layouts:
        if layout not in LAYOUTS:
            parser.error(f"there is no layout {layout}: there are {', '.join(LAYOUTS)}")

    folder = pathlib.Path(tempfile.mkdtemp(prefix="ranks_"))
    results = []
    try:
        prepare(options.tessera, folder)
        print("| precision | sequences a step | layout | step | tokens/s | of one rank | CPU time | of one rank |")
        print("|---|---|---|---|---|---|---|---|")
        for precision in options.precisions.split(","):
            for batch in (MICRO * int(count) for count in options.micro_batches.split(",")):
                runs = []
                try:
                    for layout in [None] + layouts:
                        runs.append(start(options, folder, precision, batch, layout))
                    rounds = [[run.turn(options.steps) for run in runs] for _ in range(options.rounds)]
                finally:
                    for run in runs:
                        run.end()
                for i, run in enumerate(runs):
                    step = statistics.median(turns[i][0] for turns in rounds)
                    speed = statistics.median(turns[0][0] / turns[i][0] for turns in rounds)
                    cpu = statistics.median(turns[i][1] for turns in rounds)
                    more = statistics.median(turns[i][1] / turns[0][1] for turns in rounds)
                    results.append(
                        {"precision": precision, "batch": batch, "layout": run.name, "ranks": run.ranks, "ratio": speed}
                        | {"cpu_ratio": more, "rounds": [turns[i] for turns in rounds]}
                    )
                    tokens = batch * LENGTH / step * 1e3
                    print(
                        f"| {precision} | {batch} | {run.name} | {step:.0f} ms | {tokens:.0f} | {speed:.3f} "
                        f"| {cpu:.0f} ms | {more:.3f} |",
                        flush=True,
                    )
    finally:
        shutil.rmtree(folder)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
