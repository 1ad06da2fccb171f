#!/usr/bin/env bash
# Runs a command once per period, on whichever of many machines comes first: for timers whose machines start at different
# times (a random delay, clocks that differ). Start it under the lock of the job, and let the others wait for it:
#
#   0 3 * * *  holdfast run --wait 1h nightly -- once_per_period.sh 20h /usr/local/bin/nightly-report
#
# PERIOD begins when the command has succeeded: with the time that the command takes it is shorter than the time between
# two runs, or every other run is left out; and it is longer than the machines are apart. That the command has succeeded is
# remembered as a lock, `nightly done`, which is not released: `holdfast lock show 'nightly done'` names the machine, and
# `holdfast lock break 'nightly done'` allows another run. If the command fails, or its machine dies, the next machine
# that waits runs it; so it may run twice, never at a time.
set -euo pipefail

[[ $# -ge 2 ]] || { echo "usage: holdfast run KEY -- $0 PERIOD COMMAND [ARGUMENT...]" >&2; exit 64; }
period=$1
shift
# Before the command has run: afterwards it could not be remembered that it has.
[[ $period =~ ^([1-9][0-9]{0,4}[sm]?|[1-9][0-9]{0,2}h|[1-9][0-9]?d)$ ]] || { echo "$0: PERIOD must be like 20h" >&2; exit 64; }
done_key="${HOLDFAST_KEY:?start this with holdfast run} done"

code=0
shown=$(holdfast lock show "$done_key" 2>&1) || code=$?
case $code in
  0) exit 0 ;;  # another machine was first
  1) ;;
  *) echo "$shown" >&2; exit "$code" ;;
esac
"$@"
holdfast lock acquire --no-wait --ttl "$period" "$done_key" >/dev/null
