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
values='^<holdfast/(clock|doctor|done|duration|error|fence|json|lock_options|lock_types|owned|printable|queue_types|result|shared_text|storage_types|task_types)\.hpp>$'
# The contracts: requests and outcomes, which are values, beside the backends, which are not.
contracts='^<holdfast/(lock_backend|storage_backend|record_requests|queue_requests|output_requests)\.hpp>$'
engines='^<holdfast/(memory|sqlite|redis)\.hpp>$'
policies='^<holdfast/(holdfast|open|locks|guard|tasks|claim|fenced_register|queue|queue_operations|job)\.hpp>$'
internal='^"(core|os|runtime|waiting|engine|locks|tasks|queue|decorate|embedded)/'
blocking='^<(thread|mutex|shared_mutex|condition_variable|semaphore|latch|barrier|future|iostream|fstream|filesystem|cstdio|ctime|[a-z_]+\.h|sys/.*|linux/.*)>$'

# The folders of cli/, rpc/ and serve/, by level: each includes itself and lower ones. The families of the command line
# stand side by side; main.cpp is above them.
# shellcheck disable=SC2034  # used by reference
declare -A cli_level=([terminal]=1 [arguments]=2 [metrics]=3 [process]=4 [lock_wait]=5 [supervision]=6 [main.cpp]=8)
# shellcheck disable=SC2034
for family in run lock task queue doctor bench sidecar completion manual top serve; do cli_level[$family]=7; done
declare -A rpc_level=([posix]=1 [json]=2 [protocol]=3 [session]=4 [methods]=5 [transport]=6)
declare -A serve_level=([http]=1 [access]=2 [content]=3 [site]=4 [transport]=5)

# judge_folder FILE INCLUDE: whether one of ours in cli/, rpc/ or serve/ includes one of ours from above or beside it.
judge_folder() {
  local tree=${1%%/*} from=${1#*/} to=${2//\"/}
  local -n level=${tree}_level
  from=${from%%/*}
  if [[ $tree == serve && $to == embedded/* && $from == content ]]; then return; fi
  if [[ $tree == cli && $to == serve/* ]]; then
    to=${to#serve/}
    [[ $from == @(serve|sidecar) && -n ${serve_level[${to%%/*}]-} ]] || why="the HTTP server is cli/serve's and cli/sidecar's"
    return
  fi
  if [[ $tree != rpc && $to == rpc/* ]]; then
    to=${to#rpc/}
    [[ -n ${rpc_level[${to%%/*}]-} ]] || why="not a folder of rpc/ that this check knows"
    return
  fi
  [[ $tree == rpc || $to != view/* ]] || return 0
  [[ $tree == cli || $to == "$tree"/* ]] || why="$tree includes <holdfast/...>, Asio, nlohmann and itself"
  to=${to#"$tree"/}
  to=${to%%/*}
  if [[ -z ${level[$to]-} ]]; then
    why=${why:-"not a folder of $tree/ that this check knows"}
  elif [[ $from != "$to" && ${level[$from]-0} -le ${level[$to]} ]]; then
    why="$tree/$from includes folders below it only"
  fi
}

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
        $what == "<utf8proc.h>" ]] || why="core includes the standard library, value headers and core"
      [[ $file != *_decisions.?pp || ! $what =~ $contracts ]] || why=
      [[ ! $what =~ ^\<(thread|mutex|shared_mutex|condition_variable|future|iostream|fstream|filesystem)\>$ ]] ||
        why="core is pure: no threads, no I/O"
      ;;
    src/os/*)
      [[ ! $what =~ $internal || $what =~ ^\"(core|os)/ ]] || why="os includes core, os and public headers"
      [[ ! $what =~ $policies && ! $what =~ $engines ]] || why="os knows neither engines nor policies"
      ;;
    src/runtime/*)
      [[ ! $what =~ $internal || $what =~ ^\"(core|os|runtime)/ ]] || why="runtime includes core, os and itself"
      [[ ! $what =~ $policies && ! $what =~ $engines ]] || why="runtime knows neither engines nor policies"
      ;;
    src/waiting/*)
      [[ ! $what =~ $internal || $what =~ ^\"(core|os|runtime|waiting)/ ]] || why="waiting includes core, os, runtime and itself"
      [[ ! $what =~ $policies && ! $what =~ $engines ]] || why="waiting knows neither engines nor policies"
      ;;
    src/engine/*)
      local engine=${file#src/engine/}
      engine=${engine%%/*}
      [[ ! $what =~ $internal || $what =~ ^\"(core|os|runtime|waiting|embedded|engine/$engine)/ ]] ||
        why="engine $engine includes core, os, runtime, waiting and itself"
      [[ ! $what =~ $policies ]] || why="an engine knows no policy"
      [[ ! $what =~ $engines || $what == "<holdfast/$engine.hpp>" ]] || why="an engine knows no other"
      [[ $file != */redis/@(wire|conn)/* || $what != '"engine/redis/'* || $what =~ ^\"engine/redis/(wire|conn)/ ]] ||
        why="engine/redis stands on conn and wire, not the other way round"
      [[ $file != */redis/wire/* || $what != '"engine/redis/conn/'* ]] || why="conn stands on wire, not the other way round"
      ;;
    src/locks/* | src/tasks/* | src/queue/* | src/decorate/*)
      [[ $file == src/queue/* || $what != '"queue/'* ]] || why="queues stand on tasks, not the other way round"
      [[ $file != src/locks/* || $what != '"tasks/'* ]] || why="tasks stand on locks, not the other way round"
      [[ $file == src/decorate/* || $what != '"decorate/'* ]] || why="policies do not know who observes them"
      [[ $what != '"engine/'* && ! $what =~ $engines ]] || why="policies know the contracts, not the engines"
      [[ $file != src/decorate/* || ! $what =~ ^\"(waiting|locks|tasks|queue)/ && ! $what =~ $policies ]] ||
        why="a decorator knows the contracts and runtime, neither waiting nor the policies"
      ;;
    src/*/*)
      why="a directory that this check does not know: say here what it may include"
      ;;
    view/*)
      [[ $what =~ $standard || $what == "<holdfast/"* || $what == '"view/'* ]] ||
        why="view includes <holdfast/...>, the standard library and itself"
      [[ $file == view/@(store_view|store_reader|following).* || ! $what =~ $blocking ]] || why="a pure machine: no threads, no clock, no I/O"
      ;;
    cli/* | rpc/* | serve/* | examples/* | bench/*)
      [[ $what != '"'* || $file != @(cli|rpc|serve)/* ]] || judge_folder "$file" "$what"
      [[ $file != @(rpc|serve)/* || $what != "<CLI/"* ]] || why="the option parser is the command line's"
      [[ ! $what =~ $internal && $what != *..* || $file == serve/content/* && $what == '"embedded/'* ]] ||
        why="only <holdfast/...> of ours, as any user"
      [[ $file == serve/http/* || $what != "<boost/"* ]] || why="Boost is serve/http's"
      [[ $file != serve/@(http|content)/* && $file != serve/access/@(decision|host_rules|routes)* || ! $what =~ $blocking ]] ||
        why="pure code: no threads, no clock, no I/O"
      ;;
  esac
  case $file in
    src/engine/sqlite/* | bench/* | examples/*) ;;
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
    rpc/* | serve/* | bench/* | examples/*) ;;
    *) [[ $what != "<asio"* ]] || why="Asio is for those who ask for it" ;;
  esac
  case $file in
    src/engine/redis/conn/stream* | rpc/* | serve/* | cli/* | bench/* | examples/*) ;;
    *) [[ ! $what =~ ^\<(sys/(socket|un)|netinet/.*|arpa/.*|netdb)\.h\>$ ]] || why="sockets are engine/redis/conn/stream's" ;;
  esac
  case $file in
    src/*_loop.* | src/*_fsm.* | src/*/wire/* | src/*/*_commands.* | src/*/listings.* | src/*/layout.* | \
      src/*/conn/@(backoff|call|multiplexer|subscriptions|unattended_calls).*)
      [[ ! $what =~ $blocking && ! $what =~ ^\"(os|runtime|waiting)/ ]] || why="a pure machine: no threads, no clock, no I/O"
      ;;
  esac
}

status=0
complain() {
  echo "$1"
  status=1
}

dirs=()
for dir in include src rpc view serve cli examples bench; do
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

# Every tree with C++ in it has rules here.
for tree in */; do
  tree=${tree%/}
  case $tree in
    include | src | rpc | view | serve | cli | examples | bench | test | build*) ;;
    *)
      file=$(find "$tree" -name '*.[ch]pp' -print -quit)
      [[ -z $file ]] || complain "$file:1: $tree/ is a tree that this check does not know: say here what it may include"
      ;;
  esac
done

# Every source is in a folder that has a level.
for tree in cli rpc serve; do
  [[ -d $tree ]] || continue
  declare -n known=${tree}_level
  while IFS= read -r file; do
    folder=${file#*/}
    folder=${folder%/*}  # main.cpp stays
    [[ -n ${known[$folder]-} ]] || complain "$file:1: $tree/$folder has no level in this check"
  done < <(find "$tree" -name '*.[ch]pp')
  unset -n known
done

pure_trees=(src)
[[ ! -d view ]] || pure_trees+=(view)
# Core and the machines are told the time and what happened; they neither ask nor wait.
while IFS= read -r hit; do
  complain "$hit: pure code asks for the time or waits"
done < <(find "${pure_trees[@]}" \( -path "src/core/*" -o -path 'view/read_pace.*' -o -path 'view/store_model.*' -o -path 'view/rows.*' -o -name '*_loop.*' -o -name '*_fsm.*' -o -path '*/wire/*' \
  -o -name '*_commands.*' -o -name 'listings.*' -o -name 'layout.*' -o -path '*/conn/backoff.*' -o -path '*/conn/call.*' \
  -o -path '*/conn/multiplexer.*' -o -path '*/conn/subscriptions.*' -o -path '*/conn/unattended_calls.*' \) -type f \
  -exec grep -HnE '::now\(|\bclock_gettime\(|\bsleep_(for|until)\(|\bstd::j?thread\b' {} +)

# A decision sees the requests and outcomes of the contracts, not a backend.
while IFS= read -r hit; do
  complain "$hit: core calls no backend: it decides about values"
done < <(grep -rnE --include='*_decisions.?pp' '\b(LockBackend|StorageBackend|Watch|IdleIo|Done|Completion)\b' src || true)

if [[ $count -eq 0 ]]; then
  complain "no #include found below $1: nothing was checked"
fi
exit "$status"
