#!/usr/bin/env bash
# Checks what the formatter does not.
#   check_style.sh PROJECT_DIR
# Prints `file:line: what` for every offence; fails if there is one.
set -euo pipefail
cd "$1"

longest_file=600
status=0
complain() {
  echo "$1"
  status=1
}
# offences WHAT GREP_ARGUMENTS... : complains about every line that grep finds.
offences() {
  local what=$1 hit
  shift
  while IFS= read -r hit; do
    complain "$hit: $what"
  done < <(grep -n "$@" || true)
}

shipped=(include src rpc view serve cli)
mapfile -t code < <(find "${shipped[@]}" examples bench test -name '*.[ch]pp' 2>/dev/null)
mapfile -t headers < <(find "${shipped[@]}" test -name '*.hpp' 2>/dev/null)
# Test headers may open the literals for their tests.
mapfile -t shipped_headers < <(find "${shipped[@]}" -name "*.hpp" 2>/dev/null)
mapfile -t text < <(find "${shipped[@]}" examples bench test scripts cmake docs .ci ./*.md CMakeLists.txt \
  CMakePresets.json -type f ! -name '*.json' ! -name '*.png' 2>/dev/null)
if [[ ${#code[@]} -eq 0 ]]; then
  complain "no C++ found below $1: nothing was checked"
  exit 1
fi

while read -r lines file; do
  [[ $lines -le $longest_file ]] || complain "$file:$lines: longer than $longest_file lines; it has more than one reason to exist"
done < <(find "${shipped[@]}" -name '*.[ch]pp' -exec wc -l {} + 2>/dev/null | grep -v ' total$')

offences "tab" -HF $'\t' "${text[@]}"
offences "trailing whitespace" -HE '[[:blank:]]+$' "${text[@]}"
offences "unfinished work belongs in the tracker" -HwE 'TO''DO|FIX''ME|X''XX' "${text[@]}"
if [[ ${#shipped_headers[@]} -gt 0 ]]; then
  offences "using namespace in a header" -HE '^[[:space:]]*using namespace' "${shipped_headers[@]}"
  while IFS= read -r header; do
    complain "$header:1: no #pragma once"
  done < <(grep -LE '^#pragma once$' "${headers[@]}" || true)
fi
# Later versions of the option parser than Debian 12's refuse it when the program starts.
offences "= or : in the name of a positional" -HE 'add_option\("[^-"][^" ]*[=:{]' "${code[@]}"
# wc counts newlines, grep lines: they differ by a last line without one.
while IFS= read -r file; do
  complain "$file: no newline at the end"
done < <(comm -13 <(wc -l "${text[@]}" | sed -nE 's/^ *([0-9]+) (.*)$/\2:\1/p' | sort) \
  <(grep -Hc '' "${text[@]}" | sort) | sed 's/:[0-9]*$//')
exit "$status"
