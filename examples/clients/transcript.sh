#!/usr/bin/env bash
# A Python and a Node.js worker share one sidecar, and the Python worker dies. Prints the messages (-> to the
# sidecar, <- from it), with a number in place of each lock id. Fails if a step does not happen.
#
#   transcript.sh      with `holdfast`, `python3` and `node` on the PATH
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
sidecar='' python=''
end() {
  [[ -z $python ]] || kill -KILL "$python" 2>/dev/null || true
  [[ -z $sidecar ]] || kill "$sidecar" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap end EXIT

export HOLDFAST_URL=sqlite:$work/holdfast.db HOLDFAST_TRACE=1
log=$work/log
say() { echo "--- $(date +%T.%3N) $*" >>"$log"; }
# until_log TEXT: waits until the log contains it.
until_log() {
  local i
  for ((i = 0; i < 400; i++)); do
    ! grep -qF -e "$1" "$log" || return 0
    sleep 0.05
  done
  echo "this did not happen: $1" >>"$log"
  return 1
}
# show: prints the log with numbers for lock ids, because a process that knows an id can release the lock.
show() {
  awk '{
    while (match($0, /"lockId": ?"[A-Za-z0-9_-]+"/)) {
      id = substr($0, RSTART, RLENGTH); sub(/^"lockId": ?/, "", id)
      if (!(id in number)) number[id] = ++count
      $0 = substr($0, 1, RSTART - 1) "\"lockId\":(lock " number[id] ")" substr($0, RSTART + RLENGTH)
    }
    print
  }' "$log"
}
trap 'show; end' ERR

say "a sidecar on a socket, and a task to work on"
holdfast rpc --listen "$work/rpc.sock" 2>>"$log" &
sidecar=$!
until_log "listening on"
task=$(holdfast task create --owner team --method report)

say "Python takes the lock and the task"
PYTHONDONTWRITEBYTECODE=1 python3 "$here/worker.py" "$work/rpc.sock" "$task" >>"$log" 2>&1 &
python=$!
until_log "now it hangs"

say "Node asks for the same lock, and waits"
node "$here/worker.mjs" "$work/rpc.sock" "$task" >>"$log" 2>&1 &
node=$!
until_log 'node   -> {"jsonrpc":"2.0","id":1,"method":"lock.lock"'

say "Python is killed with SIGKILL: its renewed locks are released at once, long before their ttl of 60 s"
kill -KILL "$python"
wait "$python" 2>/dev/null || true
python=''
wait "$node"

result=$(holdfast --json task result --owner team "$task")
say "the result: $result"
grep -qF '"by":"node"' <<<"$result"
grep -qF 'still held: true' "$log"
kill "$sidecar"
wait "$sidecar"
sidecar=''
say "the sidecar has ended, and its socket is gone"
[[ ! -e $work/rpc.sock ]]
show
