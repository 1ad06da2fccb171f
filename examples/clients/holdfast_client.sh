#!/usr/bin/env bash
# Locks and tasks for a shell script, through `holdfast rpc`: one sidecar for the whole script, where
# `holdfast run` would be one for each command. The script holds its locks until it ends, however it ends.
#
#   source holdfast_client.sh          call METHOD [PARAMS_AS_JSON]    the result is in $result, or it fails
#   ./holdfast_client.sh               shows what it can do
#
# What the script leaves in the background has copies of the descriptors, and would keep the sidecar and so the
# locks beyond the script's end, unless it closes them first:
#   { exec {holdfast_in}<&- {holdfast_out}>&-; rsync ...; } &
set -euo pipefail

coproc HOLDFAST_RPC { exec holdfast rpc; }
# Copies, which other subshells have too.
exec {holdfast_in}<&"${HOLDFAST_RPC[0]}" {holdfast_out}>&"${HOLDFAST_RPC[1]}"
holdfast_id=0

# call METHOD [PARAMS]: the result in $result, one request at a time. Fails with the error on stderr.
call() {
  local answer params=${2:-}
  holdfast_id=$((holdfast_id + 1))
  printf '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' "$holdfast_id" "$1" "${params:-"{}"}" >&"$holdfast_out"
  while IFS= read -r answer <&"$holdfast_in"; do
    # After lock.subscribe, losses are told in between: {"jsonrpc":"2.0","method":"lock.lost",...}
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

# member NAME: a string out of $result. (With jq: jq -r ".$1" <<<"$result")
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

  exec {holdfast_out}>&-   # the end of its input is the end of the sidecar
  eval "exec ${HOLDFAST_RPC[1]}>&-"
  wait "$HOLDFAST_RPC_PID"
fi
