#!/usr/bin/env bash
# Builds a project that takes Holdfast in with add_subdirectory.
#   subdirectory_test.sh SOURCE_DIR COMPILER LAUNCHER
set -euo pipefail
source_dir=$1 compiler=$2 launcher=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake -S "$here/consumer_subdirectory" -B "$work" -G Ninja -DHOLDFAST_SOURCE="$source_dir" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" >"$work/log" ||
  { cat "$work/log"; exit 1; }
cmake --build "$work" --target consumer >"$work/log" || { cat "$work/log"; exit 1; }
"$work/consumer"
