#!/bin/sh
# expect_failure.sh MESSAGE COMMAND...: succeeds if COMMAND ends by itself within a minute, with an
# exit code other than 0, after printing MESSAGE once.
message=$1
shift
output=$(timeout 60 "$@" 2>&1)
code=$?
echo "$output"
times=$(echo "$output" | grep -c -F -- "$message")
if [ $code -eq 0 ] || [ $code -eq 124 ] || [ "$times" -ne 1 ]; then
  echo "expected a failure that says \"$message\" once; the exit code is $code, said $times times"
  exit 1
fi
