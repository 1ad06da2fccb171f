#!/usr/bin/env bash
# Checks the direction of the dependencies: who may include what. See CONTRIBUTING.md, "Layers".
#   check_includes.sh PROJECT_DIR
# Prints `file:line: what: why` for every include that goes the wrong way; fails if there is one.
set -euo pipefail
shopt -s extglob
cd "$1"

# Headers without a directory and without an ending are the standard library's.
standard='^<[a-z0-9_]+>$'
# The public headers that declare values: no engine, no policy behind them.
values='^<holdfast/(clock|doctor|done|duration|error|fence|json|lock_options|lock_types|owned|result|storage_types|task_types)\.hpp>$'
engines='^<holdfast/(memory|sqlite|redis)\.hpp>$'
policies='^<holdfast/(holdfast|open|locks|guard|tasks|claim|fenced_register)\.hpp>$'
internal='^"(core|sys|flow|engine|locks|tasks|decorate|embedded)/'
blocking='^<(thread|mutex|shared_mutex|condition_variable|semaphore|latch|barrier|future|iostream|fstream|filesystem|cstdio|ctime|[a-z_]+\.h|sys/.*|linux/.*)>$'

# One include is judged by setting `why` when it is wrong.
judge() {
  local file=$1 what=$2
  why=
  case $file in
    include/*)
      [[ $what =~ $standard || $what == "<holdfast/"* ]] || why="public headers include the standard library and each other"
      [[ $file != include/holdfast/asio@(.hpp|/*) || $what != "<asio"* ]] || why=
      [[ $file != include/holdfast/nlohmann.hpp || $what != "<nlohmann/"* ]] || why=
      return
      ;;
    src/core/*)
      [[ $what =~ $standard || $what =~ $values || $what == '"core/'* || $what == "<openssl/evp.h>" ||
        $what == "<utf8proc.h>" || $what == "<nlohmann/json.hpp>" ]] || why="core includes the standard library, value headers and core"
      [[ ! $what =~ ^\<(thread|mutex|shared_mutex|condition_variable|future|iostream|fstream|filesystem)\>$ ]] ||
        why="core is pure: no threads, no I/O"
      ;;
    src/sys/*)
      [[ ! $what =~ $internal || $what =~ ^\"(core|sys)/ ]] || why="sys includes core, sys and public headers"
      [[ ! $what =~ $policies && ! $what =~ $engines ]] || why="sys knows neither engines nor policies"
      ;;
    src/engine/*)
      local engine=${file#src/engine/}
      engine=${engine%%/*}
      [[ ! $what =~ $internal || $what =~ ^\"(core|sys|embedded|engine/$engine)/ ]] ||
        why="engine $engine includes core, sys and itself"
      [[ ! $what =~ $policies ]] || why="an engine knows no policy"
      [[ ! $what =~ $engines || $what == "<holdfast/$engine.hpp>" ]] || why="an engine knows no other"
      ;;
    src/flow/* | src/locks/* | src/tasks/* | src/decorate/*)
      [[ $what != '"engine/'* && ! $what =~ $engines ]] || why="policies know the contracts, not the engines"
      [[ $file != src/decorate/* || ! $what =~ ^\"(locks|tasks|flow)/ && ! $what =~ $policies ]] ||
        why="a decorator knows the contracts, not the policies"
      ;;
    cli/* | examples/* | bench/*)
      [[ ! $what =~ $internal && $what != *..* ]] || why="only <holdfast/...> of ours, as any user"
      ;;
  esac
  case $file in
    src/engine/sqlite/* | bench/*) ;;
    *) [[ $what != "<sqlite3.h>" ]] || why="SQLite is engine/sqlite's" ;;
  esac
  case $file in
    src/engine/redis/* | bench/*) ;;
    *) [[ $what != "<hiredis/"* ]] || why="hiredis is engine/redis's" ;;
  esac
  case $file in
    src/engine/redis/conn/stream*) ;;
    *) [[ ! $what =~ ^\<openssl/(ssl|bio|err|x509.*)\.h ]] || why="TLS is engine/redis/conn/stream's" ;;
  esac
  case $file in
    cli/* | bench/* | examples/*) ;;
    *) [[ $what != "<asio"* ]] || why="Asio is for those who ask for it" ;;
  esac
  case $file in
    src/engine/redis/conn/stream* | cli/* | bench/* | examples/*) ;;
    *) [[ ! $what =~ ^\<(sys/(socket|un)|netinet/.*|arpa/.*|netdb)\.h\>$ ]] || why="sockets are engine/redis/conn/stream's" ;;
  esac
  case $file in
    src/*_loop.* | src/*_fsm.* | src/*/wire/* | src/*/topology/*)
      [[ ! $what =~ $blocking && $what != '"sys/'* ]] || why="a pure machine: no threads, no clock, no I/O"
      ;;
  esac
}

status=0
complain() {
  echo "$1"
  status=1
}

dirs=()
for dir in include src cli examples bench; do
  [[ ! -d $dir ]] || dirs+=("$dir")
done

count=0
while IFS=: read -r file line text; do
  [[ $text =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*(\<[^\>]*\>|\"[^\"]*\") ]] || continue
  count=$((count + 1))
  what=${BASH_REMATCH[1]}
  judge "$file" "$what"
  [[ -z $why ]] || complain "$file:$line: $what: $why"
done < <(grep -rnE --include='*.[ch]pp' '^[[:space:]]*#[[:space:]]*include' "${dirs[@]}")

# Core and the machines are told the time and what happened; they neither ask nor wait.
while IFS= read -r hit; do
  complain "$hit: pure code asks for the time or waits"
done < <(find src \( -path "src/core/*" -o -name '*_loop.*' -o -name '*_fsm.*' -o -path '*/wire/*' -o -path '*/topology/*' \) -type f \
  -exec grep -HnE '::now\(|\bclock_gettime\(|\bsleep_(for|until)\(|\bstd::j?thread\b' {} +)

if [[ $count -eq 0 ]]; then
  complain "no #include found below $1: nothing was checked"
fi
exit "$status"
