#!/usr/bin/env python3
"""Cuts the connections between processes of this host, as a broken network would: cut_connections.py PROCESS...

Cuts the TCP connections that two of the processes have with each other, and those of the emulated NCCL. The processes
continue. Needs the right to trace them, and Linux 5.6.
"""
import ctypes
import os
import pathlib
import re
import socket
import sys

PIDFD_GETFD = 438


def tcp_connections():
    """The local and the remote address of each TCP connection, by the inode of its socket."""
    connections = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            connections[fields[9]] = (fields[1], fields[2])
    return connections


def emulated_connections():
    """The inodes of the emulated NCCL's connections. Each has its name at the end that accepted it."""
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
    connected = "03"
    return {fields[6] for fields in map(str.split, lines)
            if fields[5] == connected and fields[-1].startswith("@tessera-emulated-nccl-")}


def sockets(process):
    """The open sockets of a process: inode and descriptor."""
    found = {}
    for entry in os.scandir(f"/proc/{process}/fd"):
        try:
            inode = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry.path))
        except FileNotFoundError:
            continue
        if inode:
            found[inode[1]] = int(entry.name)
    return found


def cut(process, descriptor):
    libc = ctypes.CDLL(None, use_errno=True)
    copy = libc.syscall(PIDFD_GETFD, os.pidfd_open(process), descriptor, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    with socket.socket(fileno=copy) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def main():
    processes = [int(word) for word in sys.argv[1:]]
    tcp, emulated = tcp_connections(), emulated_connections()
    ends = {process: sockets(process) for process in processes}
    owners = {tcp[inode]: process for process in processes for inode in ends[process] if inode in tcp}
    number = 0
    for process in processes:
        for inode, descriptor in ends[process].items():
            local, remote = tcp.get(inode, ("", ""))
            other = owners.get((remote, local), process)
            if inode in emulated or other != process:
                cut(process, descriptor)
                number += 1
    if number == 0:
        sys.exit(f"the processes {processes} have no connections with each other")
    print(f"{number} sockets")


main()
