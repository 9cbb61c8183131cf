#!/usr/bin/env python3
"""Runs small trainings over hosts made of network namespaces (hosts.py) and breaks their links, hosts and ranks.

    tests/hosts/several_hosts.py build/emulated/tessera [--trials N] [--seed N] [CASE...]

Prints a Markdown table of how often each case went as it should, and the output of each that did not. Needs root;
otherwise it says so and exits with 77. Cases:

    same bits      a run on 2 hosts with 2 ranks each writes the bits of a run on one host where both sum in one order,
                   and otherwise the same bits each time
    slow link      the same over a link of 10 Mbit/s
    clocks         the same while the clock of a host is a day ahead, if `faketime` is installed
    cut link       the ranks of both hosts end with exit code 75 within hang_timeout + 10 seconds, and the report names
                   the two hosts
    stopped rank   the same, and the report names the rank and its host
    dead host      the ranks of the other host end, and the run resumes on it
"""

import argparse
import filecmp
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from hosts import Hosts, unsupported_reason

TIMEOUT = 3  # run.hang_timeout
CONFIG = """
run: {{dir: {folder}/run, hang_timeout: {timeout}}}
model: {{num_layers: 2, hidden_size: 32, num_heads: 4, seq_length: 16}}
data: {{train: {folder}/data}}
batch: {{global: 8}}
train: {{steps: 12}}
checkpoint: {{interval: 6}}
log: {{interval: 1}}
"""

# Groups with at most one rank on each host, or all ranks on one, sum in the order of one host.
LAYOUTS = [{"parallel.tensor": 2}, {"parallel.tensor": 2, "parallel.zero": 1, "parallel.sequence": "true"}]
# MPI sums the others in another order, which is the same every time.
OTHER_LAYOUTS = [{"parallel.tensor": 4}, {"parallel.zero": 1}]


class Run:
    """A folder with data and a configuration for small runs."""

    def __init__(self, binary):
        self.binary = str(pathlib.Path(binary).resolve())
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.output = self.folder / "output"
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder)}
        self.wrapper = []  # words before the program
        text = "".join(f"{i} times {i % 7} is {i * (i % 7)}, and that is all.\n" for i in range(100))
        (self.folder / "text.txt").write_text(text)
        (self.folder / "run.yaml").write_text(CONFIG.format(folder=self.folder, timeout=TIMEOUT))
        subprocess.run([self.binary, "prepare", "--append-eod", "--input", self.folder / "text.txt", "--output",
                        self.folder / "data"], check=True, capture_output=True)

    def command(self, keys):
        return [self.binary, "train", str(self.folder / "run.yaml")] + [
            word for key, value in keys.items() for word in ("--set", f"{key}={value}")]

    def start(self, hosts, ranks, keys):
        with open(self.output, "w") as file:
            return hosts.mpirun(ranks, self.wrapper + self.command(keys), stdout=file, stderr=subprocess.STDOUT,
                                env=self.environment)

    def one_host(self, ranks, keys, *more):
        words = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-np", str(ranks), *self.command(keys), *more]
        with open(self.output, "w") as file:
            subprocess.run(words, check=True, stdout=file, stderr=subprocess.STDOUT, env=self.environment)

    def last_step(self, name):
        """The step of the run's last checkpoint."""
        return max(int(path.name[5:]) for path in (self.folder / name / "checkpoints").glob("step_*[0-9]"))

    def checkpoint(self, name):
        return self.folder / name / "checkpoints" / "step_00000012"

    def different_files(self, a, b):
        """The weights and moments of two runs' last checkpoints that differ in a bit."""
        names = sorted(path.name for path in self.checkpoint(a).glob("*.safetensors"))
        if not names:
            return [f"{a} has no checkpoint"]
        _, different, missing = filecmp.cmpfiles(self.checkpoint(a), self.checkpoint(b), names, shallow=False)
        return different + missing

    def wait_for_step(self, step, process, seconds=60):
        start = time.monotonic()
        while not re.search(rf"step +{step}/", self.output.read_text()):
            if process.poll() is not None or time.monotonic() - start > seconds:
                raise RuntimeError("did not start")
            time.sleep(0.02)


def compare(run, hosts, keys, on_hosts_only, change=lambda: None):
    """Runs twice, once on one host unless `on_hosts_only`."""
    code = 0
    for name in ("a", "b"):
        keys_of_run = {**keys, "run.dir": run.folder / name}
        if name == "a" and not on_hosts_only:
            run.one_host(4, keys_of_run)
            continue
        change()
        code = code or run.start(hosts, 4, keys_of_run).wait(120)
    different = run.different_files("a", "b")
    for name in ("a", "b"):
        shutil.rmtree(run.folder / name, ignore_errors=True)
    return f"{keys}: exit code {code}, {len(different)} files differ" if code or different else ""


def same_bits(run, hosts):
    found = [compare(run, hosts, keys, False) for keys in LAYOUTS]
    found += [compare(run, hosts, keys, True) for keys in OTHER_LAYOUTS]
    return "; ".join(problem for problem in found if problem)


def slow_link(run, hosts):
    return compare(run, hosts, LAYOUTS[0], False, lambda: hosts.limit(1, "10mbit"))


def clocks(run, hosts):
    if shutil.which("faketime") is None:
        return "skipped: faketime is not installed"
    wrapper = run.folder / "wrapper.sh"
    wrapper.write_text(f'#!/bin/bash\n[ "$(hostname)" = {hosts.names[1]} ] && exec faketime -f +1d "$@"\nexec "$@"\n')
    wrapper.chmod(0o755)
    run.wrapper = [str(wrapper)]
    return compare(run, hosts, LAYOUTS[0], False)


def ranks_left(run, hosts):
    """The processes of ranks on any host."""
    left = []
    for name in hosts.names:
        for process in hosts.processes(name):
            try:
                words = pathlib.Path("/proc", process, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == run.binary.encode():
                left.append(process)
    return left


def hang(run, hosts, cause, expected):
    """Lets `cause` stop a run, and waits until all ranks have ended."""
    process = run.start(hosts, 4, {"train.steps": 1000000, "checkpoint.interval": 0, "parallel.tensor": 2})
    try:
        run.wait_for_step(5, process)
        time.sleep(random.uniform(0.0, 0.5))
        facts = cause()
        start = time.monotonic()
        while ranks_left(run, hosts) and time.monotonic() - start < TIMEOUT + 15:
            time.sleep(0.1)
        seconds = time.monotonic() - start
        # mpirun passes the last lines on some time after the ranks have ended. It is not waited for: it waits for the
        # other host as long as TCP does, which is a quarter of an hour.
        while (missing := [fact for fact in (*expected, *facts) if fact not in run.output.read_text()]):
            if process.poll() is not None or time.monotonic() - start > TIMEOUT + 20:
                break
            time.sleep(0.1)
        problems = [f'the report lacks "{fact}"' for fact in missing]
        if seconds > TIMEOUT + 10:
            problems.append(f"ranks ended after {seconds:.1f} s")
        return "; ".join(problems)
    finally:
        process.kill()


def cut_link(run, hosts):
    def cause():
        hosts.cut(1)
        return [f"hosts {hosts.names[0]}, {hosts.names[1]}"]

    try:
        return hang(run, hosts, cause, ["the run hangs", "does not end on rank", "exit code 75"])
    finally:
        hosts.mend(1)


def stopped_rank(run, hosts):
    def cause():
        status = subprocess.run([run.binary, "status", run.folder / "run"], capture_output=True, text=True).stdout
        ranks = re.findall(r"rank (\d+) \(host (\S+), process (\d+)\)", status)
        rank, host, process = random.choice(ranks)
        subprocess.run(["kill", "-STOP", process], check=True)
        return [f"rank {rank} (host {host}, process {process})", "its process is stopped (state T)"]

    return hang(run, hosts, cause, ["the run hangs", "exit code 75"])


def dead_host(run, hosts):
    keys = {"train.steps": 100000, "parallel.tensor": 2}
    process = run.start(hosts, 4, keys)
    run.wait_for_step(8, process)
    hosts.cut(1)
    hosts.kill(1)
    start = time.monotonic()
    while ranks_left(run, hosts) and time.monotonic() - start < TIMEOUT + 15:
        time.sleep(0.1)
    seconds = time.monotonic() - start
    process.kill()
    process.wait()
    if seconds > TIMEOUT + 10:
        return f"ranks ended after {seconds:.1f} s"
    last = run.last_step("run")
    run.one_host(2, keys, "--stop-at", str(last + 6))
    found = run.last_step("run"), f"(step {last}," in run.output.read_text()
    return "" if found == (last + 6, True) else f"resumed from step {last}, and ended at step {found[0]}"


CASES = {"same bits": same_bits, "slow link": slow_link, "clocks": clocks, "cut link": cut_link,
         "stopped rank": stopped_rank, "dead host": dead_host}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("cases", nargs="*", metavar="CASE", default=list(CASES))
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_intermixed_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {unknown[0]}; choose from {', '.join(CASES)}")
    reason = unsupported_reason()
    if reason:
        print(f"several hosts were NOT tested: {reason}")
        return 77
    random.seed(options.seed)
    failed = []
    print("| case | trials | as it should | slowest, s |\n|---|--:|--:|--:|", flush=True)
    for name in options.cases:
        right, slowest, skipped = 0, 0.0, ""
        for _ in range(options.trials):
            start = time.monotonic()
            run = Run(options.binary)
            with Hosts(2) as hosts:
                try:
                    problem = CASES[name](run, hosts)
                except (RuntimeError, subprocess.SubprocessError) as error:
                    problem = str(error)
            slowest = max(slowest, time.monotonic() - start)
            if problem.startswith("skipped"):
                skipped = f" ({problem})"
            elif problem:
                failed.append(f"{name}: {problem}\n{run.output.read_text()[-6000:]}")
            else:
                right += 1
        print(f"| {name}{skipped} | {options.trials} | {right} | {slowest:.1f} |", flush=True)
    for text in failed:
        print(text, file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
