#!/usr/bin/env bash
# Checks that docs/reference/urls.md has the parameters of URLs that the code has, and no others.
#   check_reference.sh PROJECT_DIR
set -euo pipefail
cd "$1"

page=docs/reference/urls.md
in_code() {
  sed -nE 's/^ +\{"([a-z_]+)",.*/\1/p' src/engine/redis/url.cpp
  grep -oE '"(task|queue)_[a-z_]+"' src/store_limits.hpp | tr -d '"'
}
# The first cell of a row; it may name two.
on_page() { sed -nE 's/^\| (\x60[a-z_]+\x60(, \x60[a-z_]+\x60)*) \|.*/\1/p' "$page" | grep -oE '[a-z_]+'; }

missing=$(comm -3 <(in_code | sort -u) <(on_page | sort -u) | sed -E "s|^[^\t]|$page does not have: &|; s|^\t|not in the code: |")
[[ $(in_code | wc -l) -gt 20 ]] || missing+=" the parameters were not found in the code"
while read -r name; do
  grep -q "\`HOLDFAST_${name^^}\`" "$page" || missing+="$page does not have: HOLDFAST_${name^^}"$'\n'
done < <(grep -oE '"(task|queue)_[a-z_]+"' src/store_limits.hpp | tr -d '"' | sort -u)
[[ -z $missing ]] || {
  echo "$missing"
  exit 1
}
