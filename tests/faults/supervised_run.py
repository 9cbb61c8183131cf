#!/usr/bin/env python3
"""Trains a small model under `tessera supervise` while faults happen, and compares it with the undisturbed run.

    tests/faults/supervised_run.py build/emulated/tessera [--minutes N] [--interval SECONDS] [--seed N]

About every interval, one random fault: SIGKILL of a rank, of all ranks or of mpirun, SIGSTOP of a rank or of all ranks,
training data that is truncated for some seconds, and, as root, a full disk for some seconds. A fault counts as named if
the line of supervise.jsonl that follows has its exit code and, where one rank failed, the rank. At the end, the last
checkpoint and the logged losses must be those of a run without faults, bit for bit. Prints Markdown.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
run: {{dir: {run}, hang_timeout: 5, device: cpu}}
model: {{num_layers: 2, hidden_size: 32, num_heads: 4, seq_length: 16, vocab_size: 257}}
data: {{train: {folder}/data}}
parallel: {{tensor: {tensor}, zero: {zero}}}
batch: {{global: 8, micro: 2}}
train: {{steps: {steps}}}
checkpoint: {{interval: {interval}, keep: 3}}
log: {{interval: 10}}
"""


class Campaign:
    def __init__(self, binary, folder, options):
        self.binary, self.folder, self.options = os.path.abspath(binary), pathlib.Path(folder), options
        self.run = self.folder / "disk" / "run"
        self.faults = []
        self.run.parent.mkdir()
        self.has_disk = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256m", "tessera_faults", self.run.parent],
            capture_output=True).returncode == 0
        text = "".join(f"{i} times {i % 7} is {i * (i % 7)}, and that is all.\n" for i in range(3000))
        (self.folder / "text.txt").write_text(text)
        subprocess.run([self.binary, "prepare", "--append-eod", "--input", self.folder / "text.txt", "--output",
                        self.folder / "data"], check=True, capture_output=True)

    def command(self, name, run, steps):
        config = self.folder / f"{name}.yaml"
        config.write_text(CONFIG.format(run=run, folder=self.folder, tensor=self.options.tensor, zero=self.options.zero,
                                        steps=steps, interval=self.options.checkpoint))
        mpirun = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "--mca",
                  "mpi_yield_when_idle", "1", "-np", str(self.options.ranks)]
        return mpirun + [self.binary, "train", str(config)]

    def environment(self):
        return {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder)}

    def ranks(self):
        """The process of each living rank."""
        status = subprocess.run([self.binary, "status", str(self.run)], capture_output=True, text=True).stdout
        pairs = re.findall(r"rank (\d+) \(host \S+, process (\d+)\) is in step", status)
        return {int(rank): int(process) for rank, process in pairs}

    def journal(self):
        file = self.run / "supervise.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def launcher(self):
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == \
                        self.supervisor.pid and (entry / "comm").read_text().strip() in ("mpirun", "orterun"):
                    return int(entry.name)
            except (OSError, IndexError):
                continue
        return None

    def inject(self, kind):
        """Returns (exit codes that are right, rank or None), or None if the run is not in its steps."""
        ranks = self.ranks()
        launcher = self.launcher()
        if len(ranks) != self.options.ranks or launcher is None:
            return None
        rank = random.choice(list(ranks))
        if kind == "SIGKILL, a rank":
            os.kill(ranks[rank], signal.SIGKILL)
            return (1,), rank
        if kind == "SIGKILL, all ranks":
            for process in ranks.values():
                os.kill(process, signal.SIGKILL)
            return (1,), None
        if kind == "SIGKILL, mpirun":
            os.kill(launcher, signal.SIGKILL)
            return (1,), None
        if kind == "SIGSTOP, a rank":
            os.kill(ranks[rank], signal.SIGSTOP)
            return (75,), rank
        if kind == "SIGSTOP, all ranks":
            for process in ranks.values():
                os.kill(process, signal.SIGSTOP)
            return (75,), None
        if kind == "truncated data":  # seen at the next start, which a killed rank brings about
            data = self.folder / "data.bin"
            content = data.read_bytes()
            data.write_bytes(content[:len(content) // 2])
            time.sleep(0.2)
            for process in ranks.values():
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it has seen the truncated data first
            time.sleep(8)
            data.write_bytes(content)
            return (65, 1), None
        assert kind == "full disk"
        filler = self.run.parent / "filler"
        subprocess.run(["sh", "-c", f"cat /dev/zero > {filler}"], capture_output=True)
        time.sleep(8)
        filler.unlink()
        return (74, 1), None

    def faulty_run(self):
        kinds = ["SIGKILL, a rank", "SIGKILL, all ranks", "SIGKILL, mpirun", "SIGSTOP, a rank", "SIGSTOP, all ranks",
                 "truncated data"] + (["full disk"] if self.has_disk else [])
        words = [self.binary, "supervise", "--delay", "1", "--max-delay", "4", "--max-restarts-without-progress", "10",
                 "--kill-grace", "3", "--"] + self.command("faulty", self.run, 100_000_000)
        began = time.monotonic()
        with open(self.folder / "output", "w") as output:
            self.supervisor = subprocess.Popen(words, stdout=output, stderr=output, env=self.environment())
        queue = []
        while time.monotonic() - began < self.options.minutes * 60:
            if self.supervisor.poll() is not None:
                return f"supervise ended with {self.supervisor.returncode}"
            if not queue:
                queue = random.sample(kinds, len(kinds))
            before = len([line for line in self.journal() if line["event"] == "end"])
            injected = time.monotonic()
            expected = self.inject(queue[-1])
            if expected is None:
                time.sleep(0.5)
                continue
            kind = queue.pop()
            end = None
            while end is None and time.monotonic() - injected < 90:
                time.sleep(0.1)
                ends = [line for line in self.journal() if line["event"] == "end"]
                end = ends[before] if len(ends) > before else None
            seconds = time.monotonic() - injected
            if end is None:
                problem = "no end" if kind != "full disk" else ""  # no save fell into these seconds
            else:
                codes, rank = expected
                problem = "" if end["exit_code"] in codes and (rank is None or end.get("rank") == rank) else str(end)
            self.faults.append((kind, seconds, problem))
            print(f"{kind}: {seconds:.1f} s {problem or 'ok'}", file=sys.stderr, flush=True)
            time.sleep(max(0.0, random.uniform(0.5, 1.5) * self.options.interval - (time.monotonic() - injected)))
        self.supervisor.send_signal(signal.SIGTERM)
        code = self.supervisor.wait(120)
        return "" if code == 99 else f"supervise ended with {code} when it was asked to stop"

    def last_step(self, run):
        return max(int(path.name[5:]) for path in (run / "checkpoints").iterdir() if path.name.startswith("step_"))

    def losses(self, run):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [(line["step"], line["loss"], line["grad_norm"]) for line in lines if "loss" in line]

    def compare(self):
        """"" or what differs from a run without faults to the same step."""
        steps = self.last_step(self.run)
        clean = self.folder / "clean"
        command = self.command("clean", clean, 100_000_000) + ["--stop-at", str(steps)]
        subprocess.run(command, check=True, capture_output=True, env=self.environment())
        if self.losses(self.run) != self.losses(clean):
            return steps, "the losses differ"
        names = [path / "checkpoints" / f"step_{steps:08}" for path in (self.run, clean)]
        files = sorted(path.name for path in names[0].iterdir() if path.suffix == ".safetensors")
        if not files or files != sorted(path.name for path in names[1].iterdir() if path.suffix == ".safetensors"):
            return steps, "the checkpoints have other files"
        differ = [file for file in files if (names[0] / file).read_bytes() != (names[1] / file).read_bytes()]
        return steps, f"{differ} differ" if differ else ""

    def close(self):
        if self.has_disk:
            subprocess.run(["umount", self.run.parent])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--interval", type=float, default=60, help="mean seconds between faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--tensor", type=int, default=2)
    parser.add_argument("--zero", type=int, default=0)
    parser.add_argument("--checkpoint", type=int, default=200, help="steps between checkpoints")
    options = parser.parse_args()
    random.seed(options.seed)
    folder = tempfile.mkdtemp(prefix="tessera_faults")
    campaign = Campaign(options.binary, folder, options)
    try:
        problem = campaign.faulty_run()
        starts = len([line for line in campaign.journal() if line["event"] == "start"])
        steps, difference = campaign.compare()
    finally:
        campaign.close()
    table = collections.OrderedDict()
    for kind, seconds, wrong in campaign.faults:
        count, right, slowest = table.get(kind, (0, 0, 0.0))
        table[kind] = (count + 1, right + (not wrong), max(slowest, seconds))
    print("| fault | times | named correctly | slowest, s until the end |\n|---|--:|--:|--:|")
    for kind, (count, right, slowest) in sorted(table.items()):
        print(f"| {kind} | {count} | {right} | {slowest:.1f} |")
    print(f"\n{len(campaign.faults)} faults, {starts} starts, {steps} steps; "
          f"{difference or 'the logged losses and the last checkpoint have the bits of the undisturbed run'}")
    wrong = [fault for fault in campaign.faults if fault[2]]
    for fault in wrong:
        print(fault, file=sys.stderr)
    if problem or difference:
        print(problem, (pathlib.Path(folder) / "output").read_text()[-8000:], file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
