#!/usr/bin/env bash
# join.sh SOURCE... >JOINED: writes test files one after the other, to be compiled as one, which takes a
# quarter of the time. The unnamed namespace of each comes to lie in a namespace of its own, so that
# helpers of different files may have one name.
set -euo pipefail
for source in "$@"; do
  name=${source//[^A-Za-z0-9]/_}
  echo "#line 1 \"$source\""
  sed -e "s/^namespace {\$/namespace in_$name { namespace {/" -e 's/^}  \/\/ namespace$/} }/' "$source"
done
