#!/usr/bin/env bash
# Runs examples/once_per_period.sh as the timers of three machines would.
#   once_per_period_test.sh SCRIPT BINARY
set -euo pipefail
script=$1 binary=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$binary" "$work/bin/holdfast"
export PATH=$work/bin:$PATH HOLDFAST_URL=sqlite:$work/locks.db
runs() { wc -l <"$work/runs"; }
fail() {
  echo "$*"
  exit 1
}
machine() { holdfast run --wait 30s nightly -- "$script" 20h "$@"; }
touch "$work/runs"

# Without it, each machine gets the lock of a short job in turn.
for _ in 1 2 3; do holdfast run --no-wait nightly -- sh -c "echo in turn >>'$work/runs'"; done
[[ $(runs) -eq 3 ]] || fail "the case that this is for"

: >"$work/runs"
! machine sh -c "echo failed >>'$work/runs'; exit 1" || fail "the failure of the command was lost"
pids=()
for _ in 1 2 3; do
  machine sh -c "echo ran >>'$work/runs'" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "a machine that was not the first is no failure: $?"; done
machine sh -c "echo late >>'$work/runs'"
[[ $(tr '\n' ' ' <"$work/runs") == 'failed ran ' ]] || fail "ran: $(cat "$work/runs")"

# The next period, or an operator who wants another run.
holdfast lock break 'nightly done' --reason 'another run' </dev/null --fence \
  "$(holdfast --json lock show 'nightly done' | sed 's/.*"fence":"\([0-9]*\)".*/\1/')"
machine sh -c "echo again >>'$work/runs'"
[[ $(runs) -eq 3 ]] || fail "the next period has no run"

# A store that does not answer is no run that was made, nor one that is due.
! HOLDFAST_KEY=nightly HOLDFAST_URL=redis://127.0.0.1:1 "$script" 20h touch "$work/wrong" 2>/dev/null || fail "no store"
[[ ! -e $work/wrong ]] || fail "ran without a store"
echo "one of three machines ran the job, and one more after a break"
