#!/usr/bin/env bash
# A project that takes Holdfast in with add_subdirectory: it is configured, compiles against what the target passes
# on, links and runs.
#   subdirectory_test.sh SOURCE_DIR COMPILER LIBRARY
# The library's sources compile there as they do anywhere, so only one does, with the headers that the build
# generates; the rest is LIBRARY, built already.
set -euo pipefail
source_dir=$1 compiler=$2 library=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake -S "$here/consumer_subdirectory" -B "$work" -G Ninja -DHOLDFAST_SOURCE="$source_dir" \
  -DCMAKE_CXX_COMPILER="$compiler" >"$work/log" || { cat "$work/log"; exit 1; }
objects() { ninja -C "$work" -t targets all | sed -n "s|^\($1\): CXX_COMPILER.*|\1|p"; }
with_generated=$(grep -rl '#include "embedded/scripts.hpp"' "$source_dir/src" --include='*.cpp' | head -n 1)
mapfile -t wanted < <(
  objects 'CMakeFiles/consumer.dir/.*\.o'
  objects "holdfast/CMakeFiles/holdfast.dir/${with_generated#"$source_dir/"}\.o"
)
[[ ${#wanted[@]} -eq 2 ]] || { echo "expected two objects, found: ${wanted[*]}"; exit 1; }
ninja -C "$work" "${wanted[@]}" >"$work/log" || { cat "$work/log"; exit 1; }
cp "$library" "$work/holdfast/"
link=$(ninja -C "$work" -t commands -s consumer)
(cd "$work" && sh -c "$link")
"$work/consumer"
