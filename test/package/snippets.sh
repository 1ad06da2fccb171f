#!/usr/bin/env bash
# Takes the code out of a document, so that it can be tried.
#
#   snippets.sh cpp DOCUMENT OUT_DIR     writes OUT_DIR/NAME.N.program.cpp for each C++ block with a main,
#                                        and OUT_DIR/NAME.fragments.cpp with all the others, each in a function
#   snippets.sh sh DOCUMENT BINARY       runs the shell blocks, one after another in one temporary directory,
#                                        with BINARY on the PATH as `holdfast`
#
# A fragment sees `holdfast::Holdfast& hf` and std::chrono_literals. A shell block must succeed; one marked
# `sh redis` finds a Redis at 127.0.0.1:6379, as it is printed, which is another port in truth; one marked
# `sh not-run` builds or installs, and may use nothing but git, cd, cmake, ctest, apt-get and our scripts.
set -euo pipefail
mode=$1 document=$2
name=$(basename "$document" .md)
# In messages: from the project's root, so that a compiler cache finds the same text in every clone.
shown=${document#"$(cd "$(dirname "$0")/../.." && pwd)/"}

# blocks LANGUAGE DIR: writes every block to DIR/LINE (the line of its first text line, zero-padded).
blocks() {
  awk -v wanted="$1" -v dir="$2" '
    !open && /^```/ { open = 1; file = ""; if ($0 == "```" wanted) file = sprintf("%s/%05d", dir, NR + 1); next }
    open && /^```[[:space:]]*$/ { open = 0; if (file != "") close(file); next }
    open && file != "" { print > file }
    END { if (open) { print FILENAME ": a code block is not closed" > "/dev/stderr"; exit 1 } }
  ' "$document"
}

work=$(mktemp -d)
redis=
end() {
  [[ -z $redis ]] || kill "$redis" || true
  rm -rf "$work"
}
trap end EXIT
mkdir "$work/blocks" "$work/not-run" "$work/redis"

# start_redis: a server of this document's own, which `redis-cli` leads to as well.
start_redis() {
  local attempt wait
  for ((attempt = 0; attempt < 20; attempt++)); do
    port=$((RANDOM % 20000 + 12000))
    (cd "$work/redis" && exec redis-server --port $port --bind 127.0.0.1 --save '' --appendonly yes \
      --unixsocket "$work/redis.sock" >"$work/redis.log") &
    redis=$!
    # By the socket: somebody else's server may answer at the port.
    for ((wait = 0; wait < 200; wait++)); do
      if [[ $(command redis-cli -s "$work/redis.sock" PING 2>/dev/null) == PONG ]]; then
        printf '#!/bin/sh\nexec %s -e -p %s "$@"\n' "$(command -v redis-cli)" "$port" >"$work/bin/redis-cli"
        chmod +x "$work/bin/redis-cli"
        return
      fi
      kill -0 "$redis" 2>/dev/null || break
      sleep 0.05
    done
  done
  cat "$work/redis.log"
  return 1
}

case $mode in
  cpp)
    out=$work/out program=0
    mkdir "$out"
    blocks cpp "$work/blocks"
    fragments=$work/fragments.cpp
    for block in "$work/blocks"/*; do
      [[ -e $block ]] || break
      line=$((10#$(basename "$block")))
      if grep -q '^int main(' "$block"; then
        { echo "#line $line \"$shown\""; cat "$block"; } >"$out/$name.$((program += 1)).program.cpp"
        continue
      fi
      # Includes go to the top; blank lines keep the numbers right.
      grep '^#include' "$block" >>"$work/includes" || true
      {
        echo "void snippet_at_line_$line([[maybe_unused]] holdfast::Holdfast& hf);"
        echo "void snippet_at_line_$line([[maybe_unused]] holdfast::Holdfast& hf) {"
        echo "#line $line \"$shown\""
        sed 's/^#include.*//' "$block"
        echo "}"
      } >>"$fragments"
    done
    if [[ -e $fragments ]]; then
      {
        echo "#include <holdfast/holdfast.hpp>"
        sort -u "$work/includes" 2>/dev/null || true
        echo "using namespace std::chrono_literals;"
        cat "$fragments"
      } >"$out/$name.fragments.cpp"
    fi
    # Touches only what changed, so that nothing else is compiled again.
    mkdir -p "$3"
    for old in "$3"/*.cpp; do
      [[ -e $out/$(basename "$old") ]] || rm -f "$old"
    done
    for new in "$out"/*.cpp; do
      [[ ! -e $new ]] || cmp -s "$new" "$3/$(basename "$new")" || cp "$new" "$3"
    done
    ;;
  sh)
    binary=$3
    blocks sh "$work/blocks"
    blocks 'sh not-run' "$work/not-run"
    mkdir "$work/with-redis"
    blocks 'sh redis' "$work/with-redis"
    if odd=$(grep -hvE '^(git|cd|cmake|ctest|apt-get|sudo apt-get|\./scripts/[a-z]+|\./\.ci/run)( |$)|^$|^#' "$work/not-run"/* 2>/dev/null); then
      echo "$document: marked not-run, though it could be run: $odd"
      exit 1
    fi
    mkdir "$work/bin" "$work/here" "$work/home"
    ln -s "$binary" "$work/bin/holdfast"
    export PATH=$work/bin:$PATH HOME=$work/home XDG_STATE_HOME=$work/home/state
    export HOLDFAST_URL=sqlite:$work/here/locks.db
    if [[ -n $(ls "$work/with-redis") ]]; then
      if ! command -v redis-server >/dev/null; then
        echo "$document: there is no redis-server on the PATH (Debian: apt-get install redis-server)"
        [[ ${HOLDFAST_REQUIRE_ALL:-} != 1 ]] || exit 1
        exit 77
      fi
      start_redis
      sed -i "s/127\.0\.0\.1:6379/127.0.0.1:$port/g" "$work/with-redis"/*
      mv "$work/with-redis"/* "$work/blocks"
    fi
    count=0
    for block in "$work/blocks"/*; do
      [[ -e $block ]] || break
      count=$((count + 1))
      echo "--- $document:$((10#$(basename "$block")))"
      (cd "$work/here" && timeout 60 bash -euo pipefail "$block" </dev/null) || {
        echo "$document:$((10#$(basename "$block"))): this block failed ($?)"
        exit 1
      }
    done
    echo "--- $count blocks ran"
    ;;
  *)
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 64
    ;;
esac
