#!/usr/bin/env bash
# join.sh SOURCE... >JOINED: concatenates test files, to be compiled as one in a quarter of the time. The
# unnamed namespace of each file is put into a namespace of its own, so that helpers of different files may
# have the same name.
set -euo pipefail
for source in "$@"; do
  name=${source//[^A-Za-z0-9]/_}
  echo "#line 1 \"$source\""
  sed -e "s/^namespace {\$/namespace in_$name { namespace {/" -e 's/^}  \/\/ namespace$/} }/' "$source"
done
