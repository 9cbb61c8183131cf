#!/bin/bash
# enter_host.sh HOST COMMAND...: runs a command on a host of hosts.py. mpirun uses it in place of ssh, which passes the
# command as one text.
host=$1
shift
exec ip netns exec "$host" unshare --uts bash -c "hostname $host; cd '$PWD'; $*"
