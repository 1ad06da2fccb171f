#!/usr/bin/env bash
# A job for cron that never runs twice at a time, on one machine or on many. In a crontab, with full paths, and with
# HOLDFAST_URL=redis://... for several machines:
#
#   0 3 * * *  /usr/local/bin/cron_job.sh
#
# A start while the job runs does nothing (exit code 0). Machines whose clocks differ by more than the job takes run it in
# turn: once_per_period.sh runs a job once per night. If the lock is lost, the job is stopped (79, which cron mails).
set -euo pipefail

# Started without the lock: start again with it. Not by HOLDFAST_FENCE alone: this may run inside another lock.
if [[ ${HOLDFAST_KEY:-} != nightly-report ]]; then
  exec holdfast run --no-wait --conflict-exit-code 0 --quiet --ttl 1m nightly-report -- "$0" "$@"
fi

reports=${REPORT_DIR:-$HOME/reports}
mkdir -p "$reports"

# The name of the result contains the fence. So a job that was paused, and writes when its successor is done, replaces
# nothing: readers take the last name, and text order is fence order.
unfinished=$reports/.unfinished.$HOLDFAST_FENCE
trap 'rm -f "$unfinished"' EXIT
${REPORT_COMMAND:-uptime} >"$unfinished"
mv "$unfinished" "$reports/report.$HOLDFAST_FENCE.txt"

# Keeps the last seven.
find "$reports" -name 'report.*.txt' | sort -r | tail -n +8 | xargs -r rm
