#!/usr/bin/env bash
# Checks that every test named in docs/reference/promises.md exists: a promise is held by a test.
#   check_promises.sh PROJECT_DIR
set -euo pipefail
cd "$1"

page=docs/reference/promises.md
status=0 named=0
while IFS=. read -r suite name; do
  named=$((named + 1))
  grep -rqE "TEST(_F|_P)?\($suite, $name\)" test || {
    echo "$page: there is no test $suite.$name"
    status=1
  }
done < <(grep -oP '\x60[A-Z][A-Za-z]*\.[A-Z][A-Za-z0-9]*\x60' "$page" | tr -d '\140')
if [[ $named -lt 20 ]]; then
  echo "$page: names only $named tests"
  status=1
fi
exit "$status"
