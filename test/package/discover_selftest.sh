#!/usr/bin/env bash
# Shows that cmake/DiscoverTests.cmake registers what a program lists, refuses what it cannot register, and that a
# failure beside a skipped case is a failure. The programs are scripts that print what a GoogleTest program would.
#   discover_selftest.sh SCRIPT
set -euo pipefail
script=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

# shellcheck disable=SC2016  # Markdown's quotes
printf '| `here` | yes | no | yes | why |\n| `elsewhere` | no | yes | yes | why |\n' >"$work/matrix.md"
printf 'set(labels slow)\nset(properties_of_slow COST 7)\nset(slow "^p/here$" "^p/.*Slow")\nset(alone "^p/Long/")\n' >"$work/labels.cmake"

# program LISTING OUTPUT STATUS: a program that lists and prints this, and ends with STATUS.
program() {
  printf '%b' "$1" >"$work/listing"
  printf '%b' "$2" >"$work/output"
  cat >"$work/program" <<END
#!/bin/sh
if [ "\$1" = --gtest_list_tests ]; then cat "$work/listing"; else cat "$work/output"; exit $3; fi
END
  chmod +x "$work/program"
}
discover() {
  cmake -DPROGRAM="$work/program" -DPREFIX=p -DSECONDS=60 -DBY="$1" -DTREE=plain -DMATRIX="$work/matrix.md" \
    -DLABELS="$work/labels.cmake" -DLIST="$work/CTestTestfile.cmake" -P "$script" >"$work/log" 2>&1
}
complain() {
  echo "$*"
  wrong=$((wrong + 1))
}
# registers CASE|SUITE|VARIANT LISTING NAME...: exactly these.
registers() {
  local by=$1 listing=$2 names
  shift 2
  program "$listing" '' 0
  discover "$by" || { complain "refuses $listing: $(cat "$work/log")"; return; }
  names=$(sed -n 's/^add_test(\[==\[\([^]]*\)\]==\].*/\1/p' "$work/CTestTestfile.cmake" | tr '\n' ' ')
  [[ $names == "$* " ]] || complain "of $listing registers $names"
}
# refuses CASE|SUITE|VARIANT LISTING WHY
refuses() {
  program "$2" '' 0
  if discover "$1"; then
    complain "accepts $2"
  elif [[ $(tr -s '\n ' ' ' <"$work/log") != *"$3"* ]]; then
    complain "refuses $2 for another reason: $(cat "$work/log")"
  fi
}
# ends OUTPUT STATUS WORD: what CTest calls a test that ends so.
ends() {
  program 'S.\n  A\n' "$1" "$2"
  discover CASE
  (cd "$work" && ctest 2>&1 || true) | grep -q "p/S\.A \.*$3" || complain "$1, exit $2, is not $3"
}

registers CASE 'Running main() from x\nS.\n  A\n  B/1  # GetParam() = "[;"\nI/T/0.  # TypeParam = x<y>\n  C\n' \
  p/S.A p/S.B/1 p/I/T/0.C
registers VARIANT 'I/S.\n  A/here  # GetParam() = here\n  A/elsewhere\n  B/here\nI/Long.\n  A/here\nI/T.\n  A/here\nPlain.\n  C\n' \
  p/here p/Long/here p/Plain
for filter in 'I/S.*/here:I/T.*/here' 'I/Long.*/here' 'Plain.*'; do
  grep -qF -- "[--gtest_filter=$filter]" "$work/CTestTestfile.cmake" || complain "nothing runs exactly $filter"
done
grep -q "COST.*7.*LABELS.*slow" "$work/CTestTestfile.cmake" ||
  complain "a label is lost: $(cat "$work/CTestTestfile.cmake")"
registers SUITE 'I/S.\n  A/0  # GetParam() = 0\n  A/1\nPlain.\n  C\n  D\n' p/S p/Plain
registers SUITE 'S.\n  A\n  BSlow\n  C\n  DSlow\nI/T.\n  AllSlow/0\n' p/S p/S.BSlow p/S.DSlow p/I/T.AllSlow/0
for filter in 'S.*-S.BSlow:S.DSlow' S.BSlow S.DSlow I/T.AllSlow/0; do
  grep -qF -- "[--gtest_filter=$filter]" "$work/CTestTestfile.cmake" || complain "nothing runs exactly $filter"
done
refuses CASE '' 'lists no tests'
refuses CASE 'S.\n  A  # GetParam() = "\n;"\n' 'unexpected'
refuses CASE 'S.\n  A B\n' 'neither a suite nor a case'
refuses VARIANT 'I/S.\n  A/unknown\n' 'in which trees'
refuses VARIANT 'One/S.\n  A/here\nTwo/S.\n  A/here\n' 'would both be'
refuses VARIANT 'S.\n  DISABLED_A\n' 'disabled'
refuses SUITE 'S.\n  A\n  DISABLED_B\n' 'disabled'
ends '' 0 '\ *Passed'
ends '' 1 '\*\*\*Failed'
ends '[  SKIPPED ] S.A (0 ms)\n[  PASSED  ] 1 test.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] S.A\n' 0 '\*\*\*Skipped'
ends '[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] S.B\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] S.A\n' 1 \
  '\*\*\*Failed'
program 'S.\n  DISABLED_A\n' '' 0
discover CASE
(cd "$work" && ctest 2>&1 || true) | grep -q 'Not Run (Disabled)' || complain "a disabled test passes"

echo "$wrong judged wrongly"
[[ $wrong -eq 0 ]]
