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
declare -gA holdfast_answers=() # of the calls in progress, by id: what another call has read, else empty

# notified MESSAGE: what arrives beside the answers after lock.subscribe or job.subscribe: a lock is lost or at risk, a job
# should stop. It is read with the next answer. Define a function of this name to react to it; it may use `call`.
notified() { echo "$1" >&2; }

# call METHOD [PARAMS]: one request at a time. Sets $result, or prints the error to stderr and fails.
call() {
  local answer params=${2:-} start='{"jsonrpc":"2.0",' holdfast_call=$((holdfast_id + 1))
  holdfast_id=$holdfast_call holdfast_answers[$holdfast_call]=
  # In a subshell: neither an interrupt in the middle of the message nor a sidecar that has gone ends the script there.
  (
    trap '' INT TERM
    printf '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' "$holdfast_call" "$1" "${params:-"{}"}" >&"$holdfast_out"
  ) 2>/dev/null || true # then there is no answer
  while answer=${holdfast_answers[$holdfast_call]} && [[ $answer ]] || IFS= read -r answer <&"$holdfast_in"; do
    case $answer in
      "$start\"id\":$holdfast_call,\"result\":"*)
        result=${answer#"$start\"id\":$holdfast_call,\"result\":"} result=${result%\}}
        unset "holdfast_answers[$holdfast_call]"
        return 0
        ;;
      "$start\"id\":$holdfast_call,"* | "$start\"id\":null,"*)
        echo "$1: $answer" >&2
        unset "holdfast_answers[$holdfast_call]"
        return 1
        ;;
      "$start\"method\":"*) notified "$answer" ;;
      *) # the answer to a call that this one interrupted, through notified(); or to one that was given up
        if [[ $answer =~ \"id\":([0-9]+) && -v holdfast_answers[${BASH_REMATCH[1]}] ]]; then
          holdfast_answers[${BASH_REMATCH[1]}]=$answer
        fi
        ;;
    esac
  done
  # A line without an end is no answer.
  echo "$1: the sidecar has gone: its locks are lost, and whether this request took effect is unknown" >&2
  return 1
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
