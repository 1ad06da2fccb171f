#!/usr/bin/env bash
# Shows that cmake/Embed.cmake reads from scripts which commands they call, and refuses a script of which it could not
# know that, or that does not say what it is for.
#   embed_selftest.sh CMAKE_DIR
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0
purpose=$'-- A script.\n-- Without it, locks cannot be tried.'

mkdir -p "$work/scripts/parts"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(embed NONE)
include($1/Embed.cmake)
holdfast_embed_lua(header \${CMAKE_CURRENT_SOURCE_DIR}/scripts tried)
END
configure() {
  printf '%s\n' "${2-$purpose}" "$1" >"$work/scripts/one.lua"
  rm -rf "$work/build"
  cmake -S "$work" -B "$work/build" -G Ninja >"$work/log" 2>&1
}
commands() {
  sed -n 's/^ *{"\([a-z]*\)", "\([A-Z]*\)", \([a-z]*\)},$/\1 \2 \3/p' "$work/build/generated/embedded/scripts.hpp" |
    sort | tr '\n' ' '
}
complain() {
  echo "$*"
  wrong=$((wrong + 1))
}
# knows SCRIPT COMMANDS: exactly these.
knows() {
  if ! configure "$1"; then
    complain "refuses $1: $(cat "$work/log")"
  elif [[ $(commands) != "$2" ]]; then
    complain "of $1 knows $(commands)"
  fi
}
refuses() {
  ! configure "$@" || complain "takes $1, and knows $(commands)"
}

echo "return redis.pcall('PTTL', KEYS[1])" >"$work/scripts/parts/other.lua"
knows "return redis.call('GET', KEYS[1]) or redis.call('GET', KEYS[2])" 'one GET false '
knows "-- include other" 'one PTTL true '
knows "local hash = redis.sha1hex('') redis.call('DEL', hash)
-- redis.call(anything) in a comment" 'one DEL false '
knows "redis.pcall('SET', KEYS[1], '1') redis.call('SET', KEYS[2], '1')" 'one SET false one SET true '
refuses "return redis.call('GET', KEYS[1])" '-- A script without a purpose.'
refuses "local name = 'GET' return redis.call(name, KEYS[1])"
refuses "return redis.call(KEYS[1] and 'GET' or 'DEL', KEYS[1])"
refuses "local call = redis.call return call('GET', KEYS[1])"
refuses "local r = redis return r.call('GET', KEYS[1])"
refuses "return redis.call(\"GET\", KEYS[1])"
refuses "return redis['call']('GET', KEYS[1])"
exit $((wrong > 0))
