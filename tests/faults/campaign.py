#!/usr/bin/env python3
"""Trains small models under `tessera supervise` while faults happen, and compares each with an undisturbed run.

    tests/faults/campaign.py build/emulated/tessera [--faults N] [--minutes M] [--interval SECONDS] [--seed N]
        [--layout LAYOUT...] [--fault FAULT...]

Each layout gets N faults, one after the other, each as soon as the run trains again (or about every interval), or as
many as fit into M minutes. `--help` lists layouts and faults. Full and read-only disks need root. A fault is explained
if the line of supervise.jsonl about the next end has the exit code of that fault and, where one rank was struck, this
rank; or, if the run should survive the fault, if it says so; and if no rank crashed. It is silent if no such line comes
within run.hang_timeout + 10 seconds, and 30 seconds more where all ranks are stopped. At the end, the logged losses and
gradient norms and the last checkpoint must have the bits of a run without faults. Prints Markdown, and JSON lines with
--journal FILE.
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

TIMEOUT = 4  # run.hang_timeout
LOG = 5  # steps; starts and stops log others, too
CONFIG = """
run: {{dir: {run}, hang_timeout: {timeout}, device: {device}}}
model: {{num_layers: 2, hidden_size: 32, num_heads: 4, seq_length: 16, vocab_size: 257, tie_embeddings: false}}
data: {{train: {folder}/data}}
parallel: {{tensor: {tensor}, zero: {zero}, shard: {shard}, sequence: {sequence}}}
batch: {{global: 8, micro: 2}}
train: {{steps: 100000000, check_replicas_interval: {replicas}, recompute: {recompute}}}
optimizer: {{weight_decay: 0.0}}  # so that the embedding of a token that is nowhere in the text never changes
checkpoint: {{interval: {save}, keep: 3}}
log: {{interval: {log}}}
"""
DEFAULTS = {"tensor": 1, "zero": 0, "shard": 0, "sequence": "false", "recompute": "none", "save": 20, "device": "cpu", "replicas": 10}

# ranks, and what differs from the defaults
LAYOUTS = {
    "2 data": (2, {}),
    "4 data": (4, {}),
    "4 data, ZeRO-1": (4, {"zero": 1}),
    "4 data, ZeRO-3": (4, {"zero": 3}),
    "4 data, ZeRO-3 in groups of 2": (4, {"zero": 3, "shard": 2}),
    "2 tensor": (2, {"tensor": 2}),
    "2 data × 2 tensor": (4, {"tensor": 2}),
    "2 data × 2 tensor, ZeRO-1, sequence, recomputation":
        (4, {"tensor": 2, "zero": 1, "sequence": "true", "recompute": "block"}),
    "2 data on an emulated GPU": (2, {"device": "cuda", "environment": {"TESSERA_EMULATOR_DEVICES": "1"}}),
}
UNUSED_ROW = 7  # of each rank's part of the embedding


class Expected:
    """What a fault must lead to. `codes`: exit codes of the next end, none if the run continues. `rank`: the rank that
    is named. `says`: what the output contains. `mend`: undoes the fault. `patience`: more seconds until the end."""

    def __init__(self, codes=(), rank=None, says="", mend=None, patience=0.0):
        self.codes, self.rank, self.says, self.mend, self.patience = codes, rank, says, mend, patience


class Run:
    """A supervised run."""

    def __init__(self, binary, ranks, changes, folder):
        self.binary, self.rank_count, self.folder = os.path.abspath(binary), ranks, folder
        self.values = {**DEFAULTS, **changes}
        self.disk = folder / "disk"
        self.dir = self.disk / "run"
        self.checkpoints = self.dir / "checkpoints"
        self.output = folder / "output"
        self.data = folder / "data.bin"
        self.disk.mkdir()
        self.has_disk = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "tessera_faults", self.disk], capture_output=True).returncode == 0
        text = "".join(f"{i} times {i % 7} is {i * (i % 7)}, and that is all.\n" for i in range(3000))
        (folder / "text.txt").write_text(text)
        subprocess.run([self.binary, "prepare", "--append-eod", "--input", folder / "text.txt", "--output",
                        folder / "data"], check=True, capture_output=True)
        self.content = self.data.read_bytes()

    def command(self, name, run):
        config = self.folder / f"{name}.yaml"
        config.write_text(CONFIG.format(run=run, folder=self.folder, timeout=TIMEOUT, log=LOG, **self.values))
        mpirun = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "--mca",
                  "mpi_yield_when_idle", "1", "-np", str(self.rank_count)]
        return mpirun + [self.binary, "train", str(config)]

    def environment(self):
        return {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder), **self.values.get("environment", {})}

    def supervise(self):
        words = [self.binary, "supervise", "--delay", "0.2", "--max-delay", "2", "--max-restarts-without-progress", "50",
                 "--kill-grace", "1", "--"] + self.command("faulty", self.dir)
        with open(self.output, "a") as output:
            self.supervisor = subprocess.Popen(words, stdout=output, stderr=output, env=self.environment())

    def ranks(self):
        """The process of each rank; None unless all are in their steps."""
        status = subprocess.run([self.binary, "status", str(self.dir)], capture_output=True, text=True).stdout
        pairs = re.findall(r"rank (\d+) \(host \S+, process (\d+)\) is in step", status)
        return {int(rank): int(process) for rank, process in pairs} if len(pairs) == self.rank_count else None

    def journal(self):
        """The lines of supervise.jsonl; those in a removed folder are gone."""
        try:
            lines = (self.dir / "supervise.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        parsed = []
        for line in lines:
            try:
                parsed.append(json.loads(line))
            except json.JSONDecodeError:
                pass  # cut off by a full disk
        return parsed

    def text(self):
        return self.output.read_text(errors="replace")

    def steps(self):
        """The steps of the checkpoints, the newest first."""
        try:
            names = [path.name for path in self.checkpoints.iterdir()]
        except FileNotFoundError:
            return []
        return sorted((int(name[5:]) for name in names if re.fullmatch(r"step_\d+", name)), reverse=True)

    def launcher(self):
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == \
                        self.supervisor.pid and (entry / "comm").read_text().strip() in ("mpirun", "orterun"):
                    return int(entry.name)
            except (OSError, IndexError):
                continue
        return None

    def close(self):
        if self.supervisor.poll() is None:
            self.supervisor.kill()
        subprocess.run(["pkill", "-KILL", "-f", str(self.folder / "faulty.yaml")], capture_output=True)
        if self.has_disk:
            subprocess.run(["umount", self.checkpoints], capture_output=True)
            subprocess.run(["umount", self.disk], capture_output=True)


def send(number, *processes):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass  # it has ended because of another one


def is_running(process):
    try:
        return pathlib.Path("/proc", str(process), "stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


def kill_a_rank(run, ranks):
    rank = random.choice(list(ranks))
    send(signal.SIGKILL, ranks[rank])
    return Expected((1,), rank)


def kill_all_ranks(run, ranks):
    send(signal.SIGKILL, *ranks.values())
    return Expected((1,))


def kill_launcher(run, ranks):
    send(signal.SIGKILL, run.launcher())
    return Expected((1,))


def kill_supervisor(run, ranks):
    """Its ranks must end, and another one must go on. It writes no line about the end."""
    run.supervisor.kill()
    run.supervisor.wait()
    start = time.monotonic()
    while any(pathlib.Path("/proc", str(process)).exists() for process in ranks.values()):
        if time.monotonic() - start > TIMEOUT + 10:
            return Expected(says="the ranks did not end with their supervisor")
        time.sleep(0.05)
    run.supervise()
    return Expected()


def stop_a_rank(run, ranks):
    rank = random.choice(list(ranks))
    send(signal.SIGSTOP, ranks[rank])
    return Expected((75,), rank)


def stop_all_ranks(run, ranks):
    send(signal.SIGSTOP, *ranks.values())
    return Expected((75,), patience=30)


def truncate_data(run, ranks):
    os.truncate(run.data, random.randrange(len(run.content)))
    # In place, so that runs that are alive see it again, too.
    return Expected((65,), says=str(run.data), mend=lambda: run.data.write_bytes(run.content))


def fill_disk(run, ranks):
    filler = run.disk / "filler"
    subprocess.run(["sh", "-c", f"cat /dev/zero > {filler}"], capture_output=True)
    return Expected((74,), says="No space left on device", mend=lambda: filler.unlink(missing_ok=True))


def make_read_only(run, ranks):
    subprocess.run(["mount", "--bind", run.checkpoints, run.checkpoints], check=True)
    while subprocess.run(["mount", "-o", "remount,bind,ro", run.checkpoints], capture_output=True).returncode != 0:
        time.sleep(0.01)  # a file is open for writing
    return Expected((74,), says="Read-only file system",
                    mend=lambda: subprocess.run(["umount", run.checkpoints], check=True))


def remove_run_dir(run, ranks):
    """The run makes it again at its next save."""
    newest = (run.steps() or [0])[0]
    removed = run.disk / "removed"
    run.dir.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)
    shutil.rmtree(removed, ignore_errors=True)  # what a save has added meanwhile
    start = time.monotonic()
    while not [step for step in run.steps() if step > newest]:
        if run.supervisor.poll() is not None or time.monotonic() - start > 60:
            return Expected(says="the run did not make its folder again")
        time.sleep(0.05)
    return Expected(says="was removed while the run was using it")


def flip_in_checkpoint(run, ranks):
    """Damages the newest checkpoint before a start: the one before it must be used."""
    send(signal.SIGSTOP, *ranks.values())
    steps = run.steps()
    if len(steps) >= 2:
        folder = run.checkpoints / f"step_{steps[0]:08}"
        file = random.choice(sorted(folder.iterdir()))
        flip(file, random.randrange(file.stat().st_size))
    send(signal.SIGKILL, *ranks.values())
    return Expected((1,), says=f"step_{steps[0]:08}" if len(steps) >= 2 else "")


def flip(path, position):
    with open(path, "r+b", buffering=0) as file:
        file.seek(position)
        byte = file.read(1)[0] ^ (1 << random.randrange(8))
        file.seek(position)
        file.write(bytes([byte]))


def flip_in_memory(run, ranks):
    """Flips a bit of a weight of one rank: the embedding of a token that never occurs, so its bytes are those of the
    checkpoint. Copies of it, such as one that is being saved, are flipped, too."""
    rank = random.choice(list(ranks))
    folder = run.checkpoints / f"step_{run.steps()[0]:08}"
    row = None
    for file in sorted(folder.glob("model_*.safetensors")):
        if (int(file.stem[6:]) - rank) % run.values["tensor"] != 0:
            continue  # another shard of the vocabulary
        content = file.read_bytes()
        size = int.from_bytes(content[:8], "little")
        for name, entry in json.loads(content[8:8 + size]).items():
            if name == "embedding.word":
                begin = 8 + size + entry["data_offsets"][0] + UNUSED_ROW * entry["shape"][1] * 4
                row = content[begin:begin + entry["shape"][1] * 4]
    send(signal.SIGSTOP, ranks[rank])
    found = 0
    with open(f"/proc/{ranks[rank]}/mem", "r+b", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{ranks[rank]}/maps").read_text().splitlines():
            words = line.split()
            if words[1] != "rw-p" or (len(words) > 5 and words[5].startswith("/")):
                continue
            begin, end = (int(word, 16) for word in words[0].split("-"))
            memory.seek(begin)
            try:
                content = memory.read(end - begin)
            except OSError:
                continue
            at = content.find(row)
            while at >= 0:
                flip(f"/proc/{ranks[rank]}/mem", begin + at + 4 * random.randrange(len(row) // 4) + 2)
                found += 1
                at = content.find(row, at + 1)
    send(signal.SIGCONT, ranks[rank])
    says = f"rank {rank}" if run.rank_count // run.values["tensor"] > 2 else "no majority"
    # The save of a copy that was struck fails first.
    return Expected((1, 74), says=says if found else "the weight was not found in memory")


# function, weight in the choice, whether it suits a run
FAULTS = {
    "SIGKILL, a rank": (kill_a_rank, 24, lambda run: True),
    "SIGKILL, all ranks": (kill_all_ranks, 14, lambda run: True),
    "SIGKILL, mpirun": (kill_launcher, 14, lambda run: True),
    "SIGKILL, the supervisor": (kill_supervisor, 6, lambda run: True),
    "SIGSTOP, a rank": (stop_a_rank, 12, lambda run: True),
    "SIGSTOP, all ranks": (stop_all_ranks, 1, lambda run: True),
    "truncated data": (truncate_data, 7, lambda run: True),
    "full disk": (fill_disk, 6, lambda run: run.has_disk),
    "read-only checkpoints": (make_read_only, 6, lambda run: run.has_disk),
    "removed run.dir": (remove_run_dir, 4, lambda run: True),
    "flipped bit in a checkpoint": (flip_in_checkpoint, 6, lambda run: True),
    # Without data ranks, or with ZeRO-1, no other rank has these weights.
    "flipped bit in memory": (flip_in_memory, 6, lambda run: run.rank_count > run.values["tensor"] and
                              run.values["zero"] == 0 and run.values["device"] == "cpu"),
}


class Campaign:
    had = set()  # kinds of faults, of all layouts

    def __init__(self, run, layout, options):
        self.run, self.layout, self.options = run, layout, options
        self.kinds = [name for name in options.fault or FAULTS if FAULTS[name][2](run)]
        self.records = []

    def wait_for_steps(self):
        start = time.monotonic()
        while time.monotonic() - start < 120:
            if self.run.supervisor.poll() is not None:
                raise RuntimeError(f"supervise ended with {self.run.supervisor.returncode}")
            ranks = self.run.ranks()
            if ranks and self.run.launcher() and self.run.steps():
                return ranks
            time.sleep(0.05)
        raise RuntimeError("the run did not train again within 120 s")

    def ends(self):
        return [line for line in self.run.journal() if line["event"] == "end"]

    def strike(self, kind):
        """Injects a fault, and records what followed."""
        time.sleep(random.uniform(0.0, 0.7))
        ranks = self.run.ranks()
        if not ranks or not all(is_running(process) for process in ranks.values()):
            return  # of the start before
        before, said = len(self.ends()), len(self.run.text())
        start = time.monotonic()
        expected = FAULTS[kind][0](self.run, ranks)
        end = None
        limit = TIMEOUT + 10 + expected.patience
        while expected.codes and end is None and time.monotonic() - start < limit + 60:
            time.sleep(0.05)
            ends = self.ends()
            end = ends[before] if len(ends) > before else None
            if kind == "full disk" and end is None and (found := self.end_in_output(said)):
                end = found  # the journal is on the full disk, too
        seconds = time.monotonic() - start
        if expected.mend:
            expected.mend()
        problems = []
        if expected.codes and end is None:
            problems.append("no end")
        if end and end["exit_code"] not in expected.codes:
            problems.append(f"exit code {end['exit_code']}")
        if end and expected.rank is not None and end.get("rank") not in (expected.rank, None if kind == "full disk" else -1):
            problems.append(f"named rank {end.get('rank')} instead of {expected.rank}")
        if seconds > limit and expected.codes:
            problems.append(f"silent for {seconds:.1f} s")
        self.wait_for_steps()
        if crash := re.search(r"Signal: (?!Killed|Terminated)(.*)", self.run.text()[said:]):  # Open MPI's handler
            problems.append(f"a rank crashed: {crash[1]}")
        deadline = time.monotonic() + 5  # mpirun forwards output with a delay
        while expected.says not in self.run.text()[said:] and time.monotonic() < deadline:
            time.sleep(0.05)
        if expected.says not in self.run.text()[said:]:
            problems.append(f'did not say "{expected.says}"')
        record = {"layout": self.layout, "fault": kind, "seconds": round(seconds, 1), "said": end["what"] if end else expected.says,
                  "problem": "; ".join(problems)}
        self.records.append(record)
        print(f"{len(self.records)} {kind}: {seconds:.1f} s {record['problem'] or 'ok'}", file=sys.stderr, flush=True)
        if problems:
            print(self.run.text()[said:][-3000:], file=sys.stderr, flush=True)
        if self.options.journal:
            with open(self.options.journal, "a") as file:
                file.write(json.dumps(record) + "\n")

    def end_in_output(self, said):
        """The end that the supervisor printed."""
        text = self.run.text()[said:]
        if not re.search(r"supervise: start \d+ ended .*No space left on device", text):
            return None
        return {"exit_code": 74, "what": "No space left on device"}

    def go(self):
        """"" or why the run ended too early."""
        began = time.monotonic()
        self.run.supervise()
        queue = []
        try:
            while len(self.records) < self.options.faults and time.monotonic() - began < 60 * self.options.minutes:
                self.wait_for_steps()
                if not queue:
                    weights = [FAULTS[kind][1] for kind in self.kinds]
                    # Each kind comes once before any comes again, and first those that no layout has had.
                    each = sorted(random.sample(self.kinds, len(self.kinds)), key=self.had.__contains__, reverse=True)
                    queue = random.choices(self.kinds, weights, k=100 - len(each)) + each
                struck = time.monotonic()
                self.had.add(queue[-1])
                self.strike(queue.pop())
                if self.options.interval:
                    time.sleep(max(0.0, random.uniform(0.5, 1.5) * self.options.interval - (time.monotonic() - struck)))
            self.wait_for_steps()
        except RuntimeError as error:
            return str(error)
        self.run.supervisor.send_signal(signal.SIGTERM)
        code = self.run.supervisor.wait(120)
        return "" if code == 99 else f"supervise ended with {code} when it was asked to stop"

    def compare(self):
        """The last step, and "" or what differs from a run without faults up to there."""
        # Not the newest: a later one may be damaged, and the run stopped before it came there again.
        step = int(re.findall(r"asked to stop: saved after step (\d+)", self.run.text())[-1])
        clean = self.run.folder / "clean"
        subprocess.run(self.run.command("clean", clean) + ["--stop-at", str(step)], check=True, capture_output=True,
                       env=self.run.environment())

        def numbers(folder):
            lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            return {line["step"]: (line["loss"], line["grad_norm"]) for line in lines
                    if "loss" in line and line["step"] % LOG == 0}

        logged, undisturbed = numbers(self.run.dir), numbers(clean)
        # Those before run.dir was removed are gone.
        first = min(logged, default=step + 1)
        missing = [number for number in undisturbed if number >= first and number not in logged]
        wrong = [number for number, values in logged.items() if undisturbed.get(number) != values]
        if missing or wrong:
            return step, f"metrics.jsonl lacks steps {missing[:5]}, and has other losses in steps {wrong[:5]}"
        folders = [path / "checkpoints" / f"step_{step:08}" for path in (self.run.dir, clean)]
        files = [sorted(path.name for path in folder.glob("*.safetensors")) for folder in folders]
        if not files[0] or files[0] != files[1]:
            return step, "the checkpoints have other files"
        differ = [file for file in files[0] if (folders[0] / file).read_bytes() != (folders[1] / file).read_bytes()]
        return step, f"{differ} differ" if differ else ""


def table(records):
    found = collections.defaultdict(list)
    for record in records:
        found[record["fault"]].append(record)
    print("| fault | times | explained | slowest, s until the end |\n|---|--:|--:|--:|")
    for kind in [name for name in FAULTS if name in found]:
        group = found[kind]
        print(f"| {kind} | {len(group)} | {sum(not record['problem'] for record in group)} | "
              f"{max(record['seconds'] for record in group):.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter,
                                     epilog="layouts: " + "; ".join(LAYOUTS) + "\nfaults: " + "; ".join(FAULTS))
    parser.add_argument("binary")
    parser.add_argument("--faults", type=int, default=sys.maxsize, help="for each layout")
    parser.add_argument("--minutes", type=float, default=30, help="for each layout")
    parser.add_argument("--interval", type=float, default=0, help="mean seconds between faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layout", action="append", choices=LAYOUTS)
    parser.add_argument("--fault", action="append", choices=FAULTS)
    parser.add_argument("--least-explained", type=float, default=1.0, metavar="FRACTION",
                        help="of the faults that must be explained; a busy machine delays some beyond the limit")
    parser.add_argument("--journal", help="a file that gets a JSON line for each fault")
    options = parser.parse_args()
    random.seed(options.seed)
    records, lost = [], False
    for layout in options.layout or LAYOUTS:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera_faults"))
        run = Run(options.binary, *LAYOUTS[layout], folder)
        campaign = Campaign(run, layout, options)
        try:
            problem = campaign.go()
            step, difference = (0, "") if problem else campaign.compare()
        finally:
            run.close()
        records += campaign.records
        result = problem or difference or f"the bits of the undisturbed run after {step} steps"
        print(f"{layout}: {len(campaign.records)} faults; {result}", flush=True)
        if problem or difference:
            lost = True
            print(run.text()[-8000:], file=sys.stderr)
        else:
            shutil.rmtree(folder)
    print()
    table(records)
    explained = sum(not record["problem"] for record in records)
    return lost or explained < options.least_explained * len(records)


if __name__ == "__main__":
    sys.exit(main())
