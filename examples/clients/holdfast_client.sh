#!/usr/bin/env bash
# Locks and tasks for a shell script, through `holdfast rpc`: one process for the whole script instead of one
# `holdfast run` per command. The script holds its locks until it ends, however it ends.
#
#   source holdfast_client.sh          call METHOD [PARAMS_AS_JSON]    sets $result, or fails
#   ./holdfast_client.sh               a demonstration
#
# A background job inherits the descriptors. It would keep the sidecar, and with it the locks, alive after the
# script ends. So it must close them first:
#   { exec {holdfast_in}<&- {holdfast_out}>&-; rsync ...; } &
set -euo pipefail

coproc HOLDFAST_RPC { exec holdfast rpc; }
# Copies: subshells inherit these, but not those of a coprocess.
exec {holdfast_in}<&"${HOLDFAST_RPC[0]}" {holdfast_out}>&"${HOLDFAST_RPC[1]}"
holdfast_id=0

# call METHOD [PARAMS]: one request at a time. Sets $result, or prints the error to stderr and fails.
call() {
  local answer params=${2:-}
  holdfast_id=$((holdfast_id + 1))
  printf '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' "$holdfast_id" "$1" "${params:-"{}"}" >&"$holdfast_out"
  while IFS= read -r answer <&"$holdfast_in"; do
    # After lock.subscribe, losses may arrive before the answer: {"jsonrpc":"2.0","method":"lock.lost",...}
    [[ $answer == *'"method":"lock.lost"'* && $answer != *'"id":'* ]] || break
    echo "$answer" >&2
  done
  case $answer in
    *"\"id\":$holdfast_id,\"result\":"*) result=${answer#*\"result\":} result=${result%\}} ;;
    *)
      echo "$1: $answer" >&2
      return 1
      ;;
  esac
}

# member NAME: prints a string member of $result. (With jq: jq -r ".$1" <<<"$result")
member() {
  [[ $result =~ \"$1\":\"([^\"]*)\" ]] && printf '%s' "${BASH_REMATCH[1]}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  call lock.lock '{"key":"example","ttlMs":10000}'
  id=$(member lockId)
  echo "locked, with the fence $(member fence)"
  call lock.acquire '{"key":"example","ttlMs":10000}'
  echo "a second one: $result"
  call lock.release "{\"lockId\":\"$id\"}"
  echo "released: $result"

  call task.create '{"ownerId":"shell","requestMethod":"report","variables":{"rows":42}}'
  task="\"ownerId\":\"shell\",\"taskId\":\"$(member taskId)\""
  call task.complete "{$task,\"result\":{\"total\":42}}"
  echo "the task is $(member status)"
  call task.getResult "{$task}"
  echo "its result: $result"
  call task.remove "{$task}"
  ! call task.get "{$task}" 2>/dev/null || exit 1

  exec {holdfast_out}>&-   # the sidecar ends when its input ends
  eval "exec ${HOLDFAST_RPC[1]}>&-"
  wait "$HOLDFAST_RPC_PID"
fi
