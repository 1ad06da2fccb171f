#!/usr/bin/env bash
# A service of three SyncGuard processes becomes one of three Holdfast processes, one process at a time, on one Redis.
# All of them count under the lock "orders:42", in two steps that only the lock keeps together. In each of four phases
# one process more is Holdfast's. No update is lost, and the two share one fence counter.
#
#   examples/syncguard_migration.sh BINARY NODE_MODULES     by scripts/interop-packages: build/interop/node_modules
#
# SyncGuard's side runs the scripts of its documents, by ioredis (test/interop/syncguard.cjs).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=$1 modules=$2
for program in node redis-server redis-cli; do
  command -v $program >/dev/null || missing=$program
done
[[ -d $modules/ioredis ]] || missing="ioredis in $modules (scripts/interop-packages installs it)"
if [[ -n ${missing:-} ]]; then
  echo "there is no $missing"
  [[ ${HOLDFAST_REQUIRE_ALL:-} != 1 ]] || exit 1
  exit 77
fi

work=$(mktemp -d)
redis=
cleanup() {
  [[ -z $redis ]] || { kill "$redis" && wait "$redis"; } || true
  rm -rf "$work"
}
trap cleanup EXIT
export SOCKET=$work/redis.sock HOLDFAST_URL=unix:$work/redis.sock
(cd "$work" && exec redis-server --port 0 --unixsocket "$SOCKET" --save '' >redis.log) &
redis=$!
until [[ $(redis-cli -s "$SOCKET" PING 2>/dev/null) == PONG ]]; do
  kill -0 "$redis" || { cat "$work/redis.log"; exit 1; }
  sleep 0.05
done

rounds=8
syncguard_process() {
  local answer=$work/answer.$BASHPID
  touch "$answer"
  { # Its input stays open until it has answered.
    echo "{\"op\":\"count\",\"key\":\"orders:42\",\"counter\":\"total\",\"rounds\":$rounds}"
    until [[ -s $answer ]]; do sleep 0.05; done
  } | NODE_PATH=$modules node "$root/test/interop/syncguard.cjs" "$SOCKET" syncguard \
    "$root/test/vectors/documented" >"$answer"
  grep -qx "{\"done\":$rounds}" "$answer" || { cat "$answer"; return 1; }
}
holdfast_process() {
  local round
  for ((round = 0; round < rounds; round++)); do
    # shellcheck disable=SC2016  # for the command to expand
    "$binary" run orders:42 -- sh -c '
      count=$(redis-cli -s "$SOCKET" GET total)
      redis-cli -s "$SOCKET" SET total $((count + 1)) >/dev/null
      echo "$HOLDFAST_FENCE" >>"$0"' "$work/fences"
  done
}

redis-cli -s "$SOCKET" SET total 0 >/dev/null
for replaced in 0 1 2 3; do
  processes=()
  for ((process = 0; process < 3; process++)); do
    if ((process < replaced)); then holdfast_process & else syncguard_process & fi
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process"; done
  echo "$((3 - replaced)) of SyncGuard, $replaced of Holdfast: total $(redis-cli -s "$SOCKET" GET total)"
done

expected=$((4 * 3 * rounds))
total=$(redis-cli -s "$SOCKET" GET total)
counter=$(redis-cli -s "$SOCKET" GET syncguard:fence:syncguard:orders:42)
[[ $total -eq $expected ]] || { echo "an update was lost: $total of $expected"; exit 1; }
[[ $counter -eq $expected ]] || { echo "there were $counter grants, not $expected"; exit 1; }
sort --check --unique "$work/fences" || { echo "a fence did not rise"; exit 1; }
echo "$total updates under $counter grants; the fences of Holdfast's $(wc -l <"$work/fences") rose"
