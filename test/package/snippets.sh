#!/usr/bin/env bash
# Takes the code out of a document, so that it can be tried.
#
#   snippets.sh cpp DOCUMENT OUT_DIR     writes OUT_DIR/NAME.N.program.cpp for each C++ block with a main,
#                                        and OUT_DIR/NAME.fragments.cpp with all the others, each in a function
#   snippets.sh sh DOCUMENT BINARY       runs the shell and Python blocks, one after another in one temporary
#                                        directory, with BINARY on the PATH as `holdfast`
#
# A fragment sees `holdfast::Holdfast& hf` and std::chrono_literals. A shell block must succeed; one marked
# `sh redis` finds a Redis at 127.0.0.1:6379, as it is printed, which is another port in truth; one marked
# `sh postgres` finds a PostgreSQL, as psql's variables name it; one marked `sh not-run` builds or installs, and
# may use nothing but git, cd, cmake, ctest, apt-get and our scripts. An `ini` block is a unit of systemd: its
# first line is a comment with its file name.
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
redis='' postgres=''
end() {
  [[ -z $redis ]] || kill "$redis" || true
  [[ -z $postgres ]] || { kill -QUIT "$postgres" && wait "$postgres"; } || true
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

# start_postgres: a server of this document's own, reached by a socket only. It does not run as root.
start_postgres() {
  local bin as=() wait
  bin=$(find /usr/lib/postgresql -name bin -type d | sort -V | tail -1)
  mkdir "$work/postgres"
  if [[ $EUID -eq 0 ]]; then
    chown postgres "$work/postgres"
    chmod 711 "$work"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
  fi
  export PGHOST=$work/postgres PGUSER=tester PGDATABASE=postgres
  (cd / && "${as[@]}" "$bin/initdb" --no-sync --auth=trust --username=tester --no-locale --encoding=UTF8 \
    -D "$work/postgres/data" >"$work/postgres.log")
  (cd / && exec "${as[@]}" "$bin/postgres" -D "$work/postgres/data" -c fsync=off -c listen_addresses= \
    -c unix_socket_directories="$work/postgres" >>"$work/postgres.log" 2>&1) &
  postgres=$!
  for ((wait = 0; wait < 400; wait++)); do
    ! psql -qc 'SELECT 1' >/dev/null 2>&1 || return 0
    kill -0 "$postgres" 2>/dev/null || break
    sleep 0.05
  done
  cat "$work/postgres.log"
  return 1
}

# missing WHAT PACKAGE: this document cannot be tried here.
missing() {
  echo "$document: there is no $1 (Debian: apt-get install $2)"
  [[ ${HOLDFAST_REQUIRE_ALL:-} != 1 ]] || exit 1
  exit 77
}

# check_units: writes each unit to a file of its name, and has systemd read all of them.
check_units() {
  local block name
  mkdir "$work/files"
  for block in "$work/units"/*; do
    name=$(sed -n '1s|^# .*/||p' "$block")
    [[ $name == *.service || $name == *.timer ]] || {
      echo "$document:$((10#$(basename "$block"))): the first line of a unit must be a comment with its path"
      return 1
    }
    # What verify asks for: the programs of this machine.
    sed -E "s|^(Exec[A-Za-z]*=[-@:+!]*)/usr/bin/holdfast|\1$binary|; s|/usr/local/bin/[a-z-]+|/bin/true|" \
      "$block" >"$work/files/$name"
    echo "--- $document: $name"
  done
  # --man=no: manual pages may not be installed. Warnings count.
  systemd-analyze verify --man=no "$work/files"/* >"$work/units.log" 2>&1 || { cat "$work/units.log"; return 1; }
  ! grep -F "$work/files" "$work/units.log"
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
    mkdir "$work/with-redis" "$work/with-postgres" "$work/units"
    blocks 'sh redis' "$work/with-redis"
    blocks 'sh postgres' "$work/with-postgres"
    blocks ini "$work/units"
    mkdir "$work/python"
    blocks python "$work/python"
    for block in "$work/python"/*; do
      [[ ! -e $block ]] || mv "$block" "$work/blocks/$(basename "$block").py"
    done
    if odd=$(grep -hvE '^(git|cd|cmake|ctest|apt-get|sudo apt-get|\./scripts/[a-z-]+|\./\.ci/run)( |$)|^$|^#' "$work/not-run"/* 2>/dev/null); then
      echo "$document: marked not-run, though it could be run: $odd"
      exit 1
    fi
    mkdir "$work/bin" "$work/here" "$work/home"
    ln -s "$binary" "$work/bin/holdfast"
    export PATH=$work/bin:$PATH HOME=$work/home XDG_STATE_HOME=$work/home/state
    export HOLDFAST_URL=sqlite:$work/here/locks.db
    # A Python block has the client beside it, as after copying it.
    PYTHONPATH=$(cd "$(dirname "$0")/../../examples/clients" && pwd)
    export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
    if [[ -n $(ls "$work/with-redis") ]]; then
      command -v redis-server >/dev/null || missing redis-server redis-server
      start_redis
      sed -i "s/127\.0\.0\.1:6379/127.0.0.1:$port/g" "$work/with-redis"/*
      mv "$work/with-redis"/* "$work/blocks"
    fi
    if [[ -n $(ls "$work/with-postgres") ]]; then
      compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing PostgreSQL postgresql
      start_postgres
      mv "$work/with-postgres"/* "$work/blocks"
    fi
    if [[ -n $(ls "$work/units") ]]; then
      command -v systemd-analyze >/dev/null || missing systemd-analyze systemd
      check_units
    fi
    count=0
    for block in "$work/blocks"/*; do
      [[ -e $block ]] || break
      count=$((count + 1))
      line=$((10#$(basename "$block" .py)))
      echo "--- $document:$line"
      run=(bash -euo pipefail)
      [[ $block != *.py ]] || run=(python3)
      (cd "$work/here" && timeout 60 "${run[@]}" "$block" </dev/null) || {
        echo "$document:$line: this block failed ($?)"
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
