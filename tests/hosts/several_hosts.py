#!/usr/bin/env python3
"""Runs small trainings over hosts made of network namespaces (hosts.py) and breaks their links, hosts and ranks.

    tests/hosts/several_hosts.py build/emulated/tessera [--hosts N] [--trials N] [--seed N] [CASE...]

Prints a Markdown table of how often each case went as it should, and the output of each that did not. Needs root;
otherwise it says so and exits with 77. Cases:

    same bits      a run on several hosts with 2 ranks each writes the bits of a run on one host
    ranks by node  the same if ranks of a host are not neighbors
    slow link      the same over a link of 10 Mbit/s
    clocks         the same while the clock of a host is a day ahead, if `faketime` is installed
    cut link       the ranks of both hosts end with exit code 75 within hang_timeout + 10 seconds, and the report names
                   the two hosts
    stopped rank   the same, and the report names the rank and its host
    dead host      the ranks of the other host end, and the run resumes on it
    supervised     `tessera supervise` starts a run again after a cut link, a stopped rank and a dead host, and what it
                   then saves has the bits of an undisturbed run on one host
"""

import argparse
import filecmp
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

from hosts import ENTER, Hosts, unsupported_reason

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

# Groups that are within hosts, have one rank on each, or several on each.
LAYOUTS = [{"parallel.tensor": 2}, {"parallel.tensor": 2, "parallel.zero": 1, "parallel.sequence": "true"},
           {"parallel.tensor": 4}, {}, {"parallel.zero": 3, "parallel.grad_reduce_dtype": "bf16"}, {"parallel.zero": 3, "parallel.shard": 2}]
DATA_RANKS = {"parallel.zero": 1}  # a group with several ranks on each host


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

    def start(self, hosts, ranks, keys, by_node=False):
        with open(self.output, "w") as file:
            return hosts.mpirun(ranks, self.wrapper + self.command(keys), by_node, stdout=file,
                                stderr=subprocess.STDOUT, env=self.environment)

    def supervise(self, hosts, ranks, keys):
        words = [self.binary, "supervise", "--delay", "1", "--max-delay", "2", "--kill-grace", "1", "--"]
        with open(self.output, "w") as file:
            return hosts.start(0, words + hosts.launcher(ranks) + self.command(keys), stdout=file,
                               stderr=subprocess.STDOUT, env=self.environment)

    def journal(self):
        """The lines of supervise.jsonl."""
        path = self.folder / "run" / "supervise.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def one_host(self, ranks, keys, *more):
        words = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-np", str(ranks), *self.command(keys), *more]
        with open(self.output, "w") as file:
            subprocess.run(words, check=True, stdout=file, stderr=subprocess.STDOUT, env=self.environment)

    def random_rank(self):
        """Rank, host and process, as words."""
        status = subprocess.run([self.binary, "status", self.folder / "run"], capture_output=True, text=True).stdout
        return random.choice(re.findall(r"rank (\d+) \(host (\S+), process (\d+)\)", status))

    def ask_to_stop(self, hosts, command="supervise", number=signal.SIGTERM):
        """Asks a launcher of Tessera to let the run save and end."""
        for process in hosts.processes(hosts.names[0]):
            words = pathlib.Path("/proc", process, "cmdline").read_bytes().split(b"\0")
            if words[:2] == [self.binary.encode(), command.encode()]:
                os.kill(int(process), number)

    def last_step(self, name):
        """The step of the run's last checkpoint; 0 if there is none."""
        saved = (self.folder / name / "checkpoints").glob("step_*[0-9]")
        return max((int(path.name[5:]) for path in saved), default=0)

    def different_files(self, a, b, step=12):
        """The weights and moments of two runs' checkpoints of a step that differ in a bit."""
        folders = [self.folder / name / "checkpoints" / f"step_{step:08}" for name in (a, b)]
        names = sorted(path.name for path in folders[0].glob("*.safetensors"))
        if not names:
            return [f"{a} has no checkpoint of step {step}"]
        _, different, missing = filecmp.cmpfiles(*folders, names, shallow=False)
        return different + missing

    def wait_for_step(self, step, process, seconds=60):
        start = time.monotonic()
        while not re.search(rf"step +{step}/", self.output.read_text()):
            if process.poll() is not None or time.monotonic() - start > seconds:
                raise RuntimeError("did not start")
            time.sleep(0.02)


def compare(run, hosts, keys, by_node=False):
    """Compares a run on one host with one on all hosts."""
    ranks = 2 * len(hosts.names)
    run.one_host(ranks, {**keys, "run.dir": run.folder / "a"})
    code = run.start(hosts, ranks, {**keys, "run.dir": run.folder / "b"}, by_node).wait(120)
    different = run.different_files("a", "b")
    for name in ("a", "b"):
        shutil.rmtree(run.folder / name, ignore_errors=True)
    return f"{keys}: exit code {code}, {len(different)} files differ" if code or different else ""


def same_bits(run, hosts):
    found = [compare(run, hosts, keys) for keys in LAYOUTS]
    return "; ".join(problem for problem in found if problem)


def ranks_by_node(run, hosts):
    return compare(run, hosts, DATA_RANKS, by_node=True)


def slow_link(run, hosts):
    hosts.limit(1, "10mbit")
    return compare(run, hosts, DATA_RANKS)


def clocks(run, hosts):
    if shutil.which("faketime") is None:
        return "skipped: faketime is not installed"
    wrapper = run.folder / "wrapper.sh"
    wrapper.write_text(f'#!/bin/bash\n[ "$(hostname)" = {hosts.names[1]} ] && exec faketime -f +1d "$@"\nexec "$@"\n')
    wrapper.chmod(0o755)
    run.wrapper = [str(wrapper)]
    return compare(run, hosts, DATA_RANKS)


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
    process = run.start(hosts, 4, {"train.steps": 1000000, "checkpoint.interval": 0, **DATA_RANKS})
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
        rank, host, process = run.random_rank()
        subprocess.run(["kill", "-STOP", process], check=True)
        return [f"rank {rank} (host {host}, process {process})", "its process is stopped (state T)"]

    return hang(run, hosts, cause, ["the run hangs", "exit code 75"])


def dead_host(run, hosts):
    keys = {"train.steps": 100000, **DATA_RANKS}
    process = run.start(hosts, 4, keys)
    run.wait_for_step(8, process)
    while run.last_step("run") == 0 and process.poll() is None:  # it is saved in the background
        time.sleep(0.02)
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


def supervised(run, hosts):
    keys = {"train.steps": 1000000, "checkpoint.interval": 20, **DATA_RANKS}
    process = run.supervise(hosts, 4, keys)

    def ends():
        return [line for line in run.journal() if line["event"] == "end"]

    def wait(condition, what, seconds=60):
        start = time.monotonic()
        while not condition():
            if process.poll() is not None or time.monotonic() - start > seconds:
                raise RuntimeError(f"waited for {what}")
            time.sleep(0.05)
        return time.monotonic() - start

    def checkpoint(when):
        before = run.last_step("run")
        wait(lambda: run.last_step("run") > before, f"a checkpoint {when}")

    def cut():
        hosts.cut(1)
        return None

    def stop():
        rank, _, rank_process = run.random_rank()
        subprocess.run(["kill", "-STOP", rank_process], check=True)
        return int(rank)

    def kill():
        hosts.kill(1)
        return None

    problems = []
    for name, cause, code in (("cut link", cut, 75), ("stopped rank", stop, 75), ("dead host", kill, None)):
        checkpoint(f"before the fault {name}")
        count = len(ends())
        rank = cause()
        seconds = wait(lambda: len(ends()) > count, f"the end after the fault {name}", TIMEOUT + 120)
        hosts.mend(1)
        end = ends()[count]
        if code not in (None, end["exit_code"]) or rank not in (None, end.get("rank")) or seconds > TIMEOUT + 90:
            problems.append(f"{name}: after {seconds:.1f} s {end}")
    checkpoint("after the last fault")
    run.ask_to_stop(hosts)
    if (code := process.wait(60)) != 99:
        problems.append(f"the supervisor ended with {code}")
    last = run.last_step("run")
    run.one_host(4, {**keys, "run.dir": run.folder / "undisturbed"}, "--stop-at", str(last))
    problems += run.different_files("undisturbed", "run", last)
    return "; ".join(problems)


def asked_to_stop(run, hosts):
    """Ctrl-C of `tessera run`."""
    slots = ",".join(f"{name}:2" for name in hosts.names)
    agent = {"OMPI_MCA_plm_rsh_agent": str(ENTER)}
    agent.update({f"OMPI_MCA_{part}_tcp_if_include": "eth0" for part in ("btl", "oob")})
    keys = {"train.steps": 1000000, "checkpoint.interval": 0, **DATA_RANKS}
    with open(run.output, "w") as file:
        process = hosts.start(0, [run.binary, "run", "--hosts", slots, *run.command(keys)[1:]], stdout=file,
                              stderr=subprocess.STDOUT, env={**run.environment, **agent})
    run.wait_for_step(5, process)
    run.ask_to_stop(hosts, "run", signal.SIGINT)
    code = process.wait(60)
    found = code, run.last_step("run") >= 5, f"to resume from step {run.last_step('run')}: " in run.output.read_text()
    return "" if found == (99, True, True) else f"exit code, saved and said so: {found}"


CASES = {"same bits": same_bits, "ranks by node": ranks_by_node, "slow link": slow_link, "clocks": clocks,
         "cut link": cut_link, "stopped rank": stopped_rank, "dead host": dead_host, "asked to stop": asked_to_stop,
         "supervised": supervised}
COMPARING = (same_bits, ranks_by_node, slow_link, clocks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("cases", nargs="*", metavar="CASE", default=list(CASES))
    parser.add_argument("--hosts", type=int, default=2, help="for the cases that compare bits; the others have 2")
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
            with Hosts(options.hosts if CASES[name] in COMPARING else 2) as hosts:
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
