#!/usr/bin/env python3
"""Hosts made of network namespaces: each has its own name, its own address and one link to a common bridge, so that
mpirun treats them as machines. Needs root and iproute2. All of them share this machine's files.

    tests/hosts/hosts.py 2 -- mpirun -np 4 build/emulated/tessera train run.yaml

runs a command on the first of 2 hosts, with 2 slots each, and removes them at the end. In Python:

    with Hosts(2) as hosts:
        process = hosts.mpirun(4, [binary, "train", "run.yaml"])
        hosts.cut(1)            # the link of host 1
        hosts.limit(1, "100mbit")
        hosts.sent_bytes(1)     # over its link so far
"""

import os
import pathlib
import shutil
import subprocess
import sys

ENTER = pathlib.Path(__file__).with_name("enter_host.sh").resolve()


def unsupported_reason():
    """Why there can be no hosts here; None if there can."""
    if os.geteuid() != 0:
        return "only root may create network namespaces"
    for program in ("ip", "tc", "unshare", "mpirun"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    probe = f"tsr{os.getpid()}p"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode == 0:
        made = subprocess.run(["ip", "netns", "exec", probe, "unshare", "--uts", "true"], capture_output=True, text=True)
        subprocess.run(["ip", "netns", "delete", probe], check=True)
    return None if made.returncode == 0 else f"network namespaces are not allowed: {made.stderr.strip()}"


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


class Hosts:
    def __init__(self, count, slots=2):
        self.names = [f"tsr{os.getpid()}h{i}" for i in range(count)]
        self.slots = slots
        self.bridge = f"tsr{os.getpid()}b"

    def __enter__(self):
        try:
            run("ip", "netns", "add", self.bridge)
            run("ip", "-n", self.bridge, "link", "add", "br0", "type", "bridge")
            run("ip", "-n", self.bridge, "link", "set", "br0", "up")
            names = "127.0.0.1 localhost\n" + "".join(f"10.77.0.{i + 1} {name}\n" for i, name in enumerate(self.names))
            for i, name in enumerate(self.names):
                run("ip", "netns", "add", name)
                folder = pathlib.Path("/etc/netns", name)  # `ip netns exec` shows its files in /etc
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "hosts").write_text(names)
                run("ip", "-n", name, "link", "set", "lo", "up")
                run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{i}", "netns", self.bridge)
                run("ip", "-n", self.bridge, "link", "set", f"p{i}", "master", "br0", "up")
                run("ip", "-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
                run("ip", "-n", name, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (*self.names, self.bridge):
            for pid in self.processes(name):
                subprocess.run(["kill", "-KILL", pid], capture_output=True)
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)

    def processes(self, name):
        return subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()

    def start(self, host, command, **options):
        """Starts a command on a host."""
        return subprocess.Popen([ENTER, self.names[host], *command], **options)

    def launcher(self, ranks, by_node=False):
        """The words of mpirun for ranks of a program, which fill one host after the other or, with `by_node`, take
        turns."""
        hosts = ",".join(f"{name}:{self.slots}" for name in self.names)
        launcher = ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", str(ENTER), "--host", hosts]
        launcher += ["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "-np", str(ranks)]
        return launcher + (["--map-by", "node"] if by_node else [])

    def mpirun(self, ranks, command, by_node=False, **options):
        """Starts ranks of a program from the first host."""
        return self.start(0, [*self.launcher(ranks, by_node), *command], **options)

    def cut(self, host):
        run("ip", "-n", self.bridge, "link", "set", f"p{host}", "down")

    def mend(self, host):
        run("ip", "-n", self.bridge, "link", "set", f"p{host}", "up")

    def limit(self, host, rate):
        """Slows what a host sends."""
        run("tc", "-n", self.names[host], "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "32kb",
            "latency", "50ms")

    def kill(self, host):
        """Ends all processes of a host, like a power failure."""
        run("kill", "-KILL", *self.processes(self.names[host]))

    def sent_bytes(self, host):
        """The bytes that a host has sent over its link."""
        text = subprocess.run(["ip", "netns", "exec", self.names[host], "cat", "/sys/class/net/eth0/statistics/tx_bytes"],
                              capture_output=True, text=True, check=True).stdout
        return int(text)


def main():
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__)
    reason = unsupported_reason()
    if reason:
        sys.exit(f"hosts.py: {reason}")
    with Hosts(int(sys.argv[1])) as hosts:
        command = sys.argv[3:]
        if command[0] == "mpirun" and command[1] == "-np":
            sys.exit(hosts.mpirun(int(command[2]), command[3:]).wait())
        sys.exit(hosts.start(0, command).wait())


if __name__ == "__main__":
    main()
