#!/usr/bin/env bash
# Installs a build tree into a temporary prefix and uses it from outside, by CMake and by pkg-config.
#   install_test.sh BUILD_DIR VERSION COMPILER COMPILER_FLAGS
set -euo pipefail
build=$1 version=$2 compiler=$3 flags=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
# Moved after installation: nothing in it may remember where it was put.
mv "$work/first" "$work/prefix"

cmake -S "$here/consumer_installed" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" >"$work/log" || {
  cat "$work/log"
  exit 1
}
cmake --build "$work/cmake" >"$work/log" || { cat "$work/log"; exit 1; }
said=$("$work/cmake/consumer")
echo "with CMake: $said"
[[ $said == "$version "* ]]

pc=$(dirname "$(find "$work/prefix" -name holdfast.pc)")
export PKG_CONFIG_PATH=$pc
[[ $(pkg-config --modversion holdfast) == "$version" ]]
read -ra compile <<<"$flags $(pkg-config --cflags holdfast)"
read -ra link <<<"$(pkg-config --libs holdfast)"
"$compiler" -std=c++20 "${compile[@]}" "$here/consumer.cpp" -o "$work/by_hand" "${link[@]}"
said=$(LD_LIBRARY_PATH=$(dirname "$pc") "$work/by_hand")
echo "with pkg-config: $said"
[[ $said == "$version "* ]]

if grep -rlIF -e "$build" -e "$work/first" "$work/prefix"; then
  echo "the files above remember paths of the machine that built them"
  exit 1
fi
