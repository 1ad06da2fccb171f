#!/usr/bin/env bash
# Runs examples/cron_job.sh as cron would.
#   cron_job_test.sh JOB BINARY
set -euo pipefail
job=$1 binary=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$binary" "$work/bin/holdfast"
export PATH=$work/bin:$PATH HOLDFAST_URL=sqlite:$work/locks.db REPORT_DIR=$work/reports
reports() { find "$REPORT_DIR" -name 'report.*.txt' 2>/dev/null | wc -l; }
fail() {
  echo "$*"
  exit 1
}

cat >"$work/slow" <<SH
#!/bin/sh
touch "$work/started"
until test -e "$work/go"; do sleep 0.02; done
echo a report
SH
chmod +x "$work/slow"
REPORT_COMMAND=$work/slow "$job" &
first=$!
until [[ -e $work/started ]]; do sleep 0.02; done
"$job" || fail "a second start must not be a failure: $?"
[[ $(reports) -eq 0 ]] || fail "the job ran twice at a time"
touch "$work/go"
wait "$first" || fail "the job failed"
[[ $(reports) -eq 1 ]] || fail "there must be one report"

for _ in {1..8}; do REPORT_COMMAND='echo later' "$job"; done
[[ $(reports) -eq 7 ]] || fail "the last seven are kept, not $(reports)"
! grep -rlx 'a report' "$REPORT_DIR" || fail "the oldest must be gone"
[[ -z $(find "$REPORT_DIR" -name '.unfinished.*') ]] || fail "something is left behind"
echo "$(reports) reports; the last is $(find "$REPORT_DIR" -name 'report.*' | sort | tail -1 | xargs basename)"
