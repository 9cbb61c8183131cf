"""Runs the program that comes with this package or, without one, the `tessera` on the PATH."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading


class Error(RuntimeError):
    """The program failed. The text is its own message; `exit_code` is documented in docs/reliability.md."""

    def __init__(self, message, exit_code):
        super().__init__(message)
        self.exit_code = exit_code


def program_path():
    """The path of the program. Raises FileNotFoundError if there is none."""
    packaged = pathlib.Path(__file__).parent / "prefix/bin/tessera"
    found = str(packaged) if packaged.exists() else shutil.which("tessera")
    if found is None:
        raise FileNotFoundError(f"there is no program tessera: neither {packaged} nor on the PATH")
    return found


def message_in(text):
    """The program's message in what it and mpirun wrote to stderr."""
    lines = text.strip().splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith(("error: ", "tessera: rank "))), 0)
    message = []
    for line in lines[first:]:
        if line.startswith("-----"):  # mpirun explains that a rank has failed
            break
        message.append(line)
    return "\n".join(message or lines).removeprefix("error: ") or "tessera wrote no message"


def run(*arguments, ranks=1, mpirun=("mpirun",)):
    """Runs `tessera ARGUMENTS...` on this many ranks and waits. Prints its output as it comes.

    `mpirun` starts several ranks; give it options as more words, such as ("mpirun", "--hostfile", "hosts").
    Raises Error with the program's message if it fails.
    """
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}, but at least 1 is needed")
    command = [program_path(), *map(str, arguments)]
    if ranks > 1:
        command = [*mpirun, "-np", str(ranks), *command]
    errors = []

    def show_errors(stream):
        for line in stream:
            errors.append(line)
            sys.stderr.write(line)

    # Through Python's streams, so that notebooks show the output, too.
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, errors="replace") as process:
        reader = threading.Thread(target=show_errors, args=(process.stderr,))
        reader.start()
        for line in process.stdout:
            sys.stdout.write(line)
        reader.join()
    if process.returncode != 0:
        raise Error(message_in("".join(errors)), process.returncode)


def train(config, ranks=1, mpirun=("mpirun",)):
    """Trains. `config` is the path of a YAML file, or its sections as a dict, which must have run.dir.

    Raises Error with the program's message if the run fails, also for a wrong configuration.
    """
    if not isinstance(config, dict):
        run("train", config, ranks=ranks, mpirun=mpirun)
        return
    # Otherwise it would be named after the file, which is temporary here.
    if not config.get("run", {}).get("dir"):
        raise ValueError("the configuration has no run.dir, the folder that the run writes to")
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        path = pathlib.Path(folder) / "config.yaml"
        path.write_text(json.dumps(config, indent=1))  # JSON is YAML, too
        run("train", path, ranks=ranks, mpirun=mpirun)


def main():
    """The command `tessera`."""
    program = program_path()
    os.execv(program, [program, *sys.argv[1:]])
