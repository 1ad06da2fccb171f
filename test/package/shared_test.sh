#!/usr/bin/env bash
# Makes the shared library, installs it, uses all of it from outside, and compares what it exports with the public
# headers.
#   shared_test.sh SOURCE_DIR BUILD_DIR VERSION COMPILER COMPILER_FLAGS UNITY API_OBJECTS
# A shared build compiles its sources as a static one does, so only its link is repeated, with the objects of BUILD_DIR.
# API_OBJECTS: whole_api.cpp and another source that includes all headers, compiled.
set -euo pipefail
source_dir=$1 build=$2 version=$3 compiler=$4 flags=$5 unity=$6
read -ra api <<<"$7"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# finding WHAT: each line of the input is one.
finding() { sed "s/^/$1: /" >>"$work/findings"; }
: >"$work/findings"

cmake -S "$source_dir" -B "$work/tree" -G Ninja -DBUILD_SHARED_LIBS=ON -DHOLDFAST_UNITY="$unity" \
  -DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF -DHOLDFAST_EXAMPLES=OFF -DHOLDFAST_CLI=OFF \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" >"$work/log" || { cat "$work/log"; exit 1; }
(cd "$build" && find CMakeFiles/holdfast.dir -name '*.o' -exec cp --parents -t "$work/tree" {} +)
library=libholdfast.so.$version
link=$(ninja -C "$work/tree" -t commands -s "$library")
(cd "$work/tree" && sh -c "$link" && ln -s "$library" "${library%.*}" && ln -s "${library%.*}" libholdfast.so)
cmake --install "$work/tree" --prefix "$work/prefix" >/dev/null
installed=$(find "$work/prefix" -name "$library")

# Each minor version before 1.0 is another interface.
readelf -d "$installed" | grep -q "SONAME.*\[libholdfast\.so\.${version%.*}\]" || echo "$library" | finding "wrong soname"

# A consumer by CMake finds it without what the library itself links to; one by pkg-config needs all of it.
cmake -S "$here/consumer_installed" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/cmake" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/cmake/consumer"
pc=$(dirname "$(find "$work/prefix" -name holdfast.pc)")
read -ra libraries <<<"$(PKG_CONFIG_PATH=$pc pkg-config --libs holdfast)"
read -ra compile <<<"$flags"
"$compiler" "${compile[@]}" "${api[@]}" -o "$work/api" "${libraries[@]}"
LD_LIBRARY_PATH=$(dirname "$installed") "$work/api"

# From here on a grep may find nothing.
set +o pipefail
# Names as people read them, without those of one function's several constructors.
exported() { nm -DC --defined-only "$installed" | sed -nE "s/^[0-9a-f]+ [$1] //p" | sort -u; }
defined() { nm -gC --defined-only "$build/libholdfast.a" | sed -nE "s/^[0-9a-f]+ [$1] //p" | sort -u; }
ours='^([^(<]* )?holdfast::'

# The namespaces that only src/ has.
internal=$(comm -23 <(grep -rhoE '^namespace holdfast::[a-z]+' "$source_dir/src" | sort -u) \
  <(grep -rhoE '^namespace holdfast::[a-z]+' "$source_dir/include" | sort -u) | sed 's/.*:://' | paste -sd'|')
exported 'A-Za-z' | grep -E "$ours| for holdfast::" | grep -E "holdfast::($internal|\(anonymous namespace\))::" |
  finding "exported, but internal"
# Nothing is a third party's. What is std's stays exported, by libstdc++'s will: the waiters of a std::atomic and those
# who notify them must find one another in one table, also across the border.
exported 'A-Za-z' | grep -vE "$ours|(^|^[^(]* )(std|__gnu_cxx)::|^(typeinfo|typeinfo name|vtable) for (holdfast|std)::" |
  grep -vE '^typeinfo (name )?for [a-z]+ (\(\*\))?\(' | finding "exported, but not ours"

private='Claim::(Claim\(std::shared_ptr|claimed|unusable)|Guard::(Guard\(std::shared_ptr|held|unusable)'
private+='|FencedRegister::FencedRegister\(std::shared_ptr<holdfast::FencedRegister::Place|Holdfast::(Holdfast\(|opened)'
private+='|Job::(Job\(std::shared_ptr|claimed|unusable)|Queue::Queue\(|TaskWatch::TaskWatch\(std::shared_ptr'
# A function that the library defines and hides, though a public header declares it, and not as private.
comm -23 <(defined T) <(exported T) | grep -E "$ours" | grep -vE "holdfast::($internal|\(anonymous namespace\))::" |
  grep -vE "holdfast::($private)" |
  while IFS= read -r name; do
    path=${name%%(*}
    path=${path#*holdfast::}
    path=${path%\[abi:cxx11\]}
    if [[ $path == *::* ]]; then
      declared="^(class|struct) (HOLDFAST_EXPORT )?${path%%::*}( final)?( :.*)?( \{|$)"
    else
      declared="^[^/]*[ &*]${path//[^a-z_]/.}\("
    fi
    ! grep -rqE "$declared" "$source_dir/include" || echo "$name"
  done | finding "hidden, but public"
comm -23 <(defined W) <(exported W) | grep -E 'holdfast::[A-Z][a-z]+::(run|start)<[^<>]*>\([^{}]*$' |
  finding "hidden, but public"
# Every exported function is in whole_api.cpp, but for the private ones.
comm -23 <(exported TW | grep -E "$ours") <(nm -C --undefined-only "${api[@]}" | sed -nE 's/^ +U //p' | sort -u) |
  grep -vE "holdfast::($private)" | finding "exported, but not in whole_api.cpp"

echo "$(nm -D --defined-only "$installed" | wc -l) symbols are exported"
cat "$work/findings"
[[ ! -s $work/findings ]]
