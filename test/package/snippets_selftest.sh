#!/usr/bin/env bash
# Shows that a document with wrong code is noticed, and where.
#   snippets_selftest.sh COMPILER INCLUDE_DIR
set -euo pipefail
compiler=$1 includes=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

expect() {
  local expected=$1 what=$2 verdict=good
  shift 2
  "$@" >"$work/output" 2>&1 || verdict=bad
  if [[ $verdict != "$expected" ]]; then
    echo "$what: $verdict"
    cat "$work/output"
    wrong=$((wrong + 1))
  fi
}
document() { printf '%s\n' "$@" >"$work/page.md"; }
compile() {
  "$here/snippets.sh" cpp "$work/page.md" "$work/cpp"
  for file in "$work/cpp"/*.cpp; do
    "$compiler" -std=c++20 -fsyntax-only -I "$includes" "$file"
  done
}

document 'Text.' '```cpp' 'auto guard = hf.locks().lock("a", {.ttl = 30s});' '```' '```cpp' 'int main() {}' '```'
expect good "right C++" compile
document 'Text.' '```cpp' '' 'auto guard = hf.locks().lick("a");' '```'
expect bad "a fragment with a wrong name" compile
grep -q 'page.md:4:' "$work/output" || { echo "the error does not say where"; cat "$work/output"; wrong=$((wrong + 1)); }
document '```cpp' 'int main() { return nothing; }' '```'
expect bad "a program with a wrong name" compile
document '```cpp' 'int main() {}'
expect bad "a block that is not closed" "$here/snippets.sh" cpp "$work/page.md" "$work/cpp"

run() { "$here/snippets.sh" sh "$work/page.md" /bin/true; }
document '```sh' 'holdfast run a -- b' 'touch made' '```' 'then' '```sh' 'test -e made' '```'
expect good "right shell" run
document '```sh' 'false' 'true' '```'
expect bad "a shell block that fails" run
document '```python' 'import holdfast_client' 'open("made", "w").close()' '```' '```sh' 'test -e made' '```'
expect good "right Python" run
document '```python' 'import holdfast_client' 'holdfast_client.Nothing' '```'
expect bad "a Python block that raises" run
if command -v redis-server >/dev/null; then
  document '```sh redis' 'redis-cli -u redis://127.0.0.1:6379 PING | grep -q PONG' 'redis-cli SET a b' '```' \
    '```sh redis' 'redis-cli GET a | grep -qx b' '```'
  expect good "a block with a Redis" run
  document '```sh redis' 'redis-cli NONSENSE' '```'
  expect bad "a block with a Redis that refuses" run
fi
if command -v systemd-analyze >/dev/null; then
  unit() { document '```ini' "$1" '[Service]' 'ExecStart=/usr/bin/holdfast run a -- b' "$2" '```'; }
  unit '# /etc/systemd/system/a.service' 'KillMode=mixed'
  expect good "a right unit" run
  unit '# /etc/systemd/system/a.service' 'KilMode=mixed'
  expect bad "a unit with an unknown key" run
  unit '# a unit' 'KillMode=mixed'
  expect bad "a unit without a name" run
fi
if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  document '```sh postgres' 'psql -qAtc "SELECT 40 + 2" | grep -qx 42' '```'
  expect good "a block with a PostgreSQL" run
fi
document '```sh not-run' './scripts/demo' '```'
expect good "a block that builds" run
document '```sh not-run' 'holdfast run a -- b' '```'
expect bad "a block hidden from the test" run

[[ $wrong -eq 0 ]]
