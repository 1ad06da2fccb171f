#!/usr/bin/env bash
# Takes the code out of a document, so that it can be tried.
#
#   snippets.sh cpp DOCUMENT OUT_DIR     writes OUT_DIR/NAME.N.program.cpp for each C++ block with a main,
#                                        and OUT_DIR/NAME.fragments.cpp with all the others, each in a function
#   snippets.sh sh DOCUMENT BINARY       runs the shell blocks, one after another in one temporary directory,
#                                        with BINARY on the PATH as `holdfast`
#
# A fragment sees `holdfast::Holdfast& hf` and std::chrono_literals. A shell block must succeed; one marked
# `sh not-run` builds or installs, and may use nothing but git, cd, cmake, ctest, apt-get and our scripts.
set -euo pipefail
mode=$1 document=$2
name=$(basename "$document" .md)

# blocks LANGUAGE DIR: writes every block to DIR/LINE (the line of its first text line, zero-padded).
blocks() {
  awk -v wanted="$1" -v dir="$2" '
    !open && /^```/ { open = 1; file = ""; if ($0 == "```" wanted) file = sprintf("%s/%05d", dir, NR + 1); next }
    open && /^```[[:space:]]*$/ { open = 0; if (file != "") close(file); next }
    open && file != "" { print > file }
    END { if (open) { print FILENAME ": a code block is not closed" > "/dev/stderr"; exit 1 } }
  ' "$document"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/blocks" "$work/not-run"

case $mode in
  cpp)
    out=$work/out program=0
    mkdir "$out"
    blocks cpp "$work/blocks"
    fragments=$work/fragments.cpp
    for block in "$work/blocks"/*; do
      [[ -e $block ]] || break
      line=$((10#$(basename "$block")))
      if grep -q '^int main(' "$block"; then
        { echo "#line $line \"$document\""; cat "$block"; } >"$out/$name.$((program += 1)).program.cpp"
        continue
      fi
      # Includes go to the top; blank lines keep the numbers right.
      grep '^#include' "$block" >>"$work/includes" || true
      {
        echo "void snippet_at_line_$line([[maybe_unused]] holdfast::Holdfast& hf);"
        echo "void snippet_at_line_$line([[maybe_unused]] holdfast::Holdfast& hf) {"
        echo "#line $line \"$document\""
        sed 's/^#include.*//' "$block"
        echo "}"
      } >>"$fragments"
    done
    if [[ -e $fragments ]]; then
      {
        echo "#include <holdfast/holdfast.hpp>"
        sort -u "$work/includes" 2>/dev/null || true
        echo "using namespace std::chrono_literals;"
        cat "$fragments"
      } >"$out/$name.fragments.cpp"
    fi
    # Touches only what changed, so that nothing else is compiled again.
    mkdir -p "$3"
    for old in "$3"/*.cpp; do
      [[ -e $out/$(basename "$old") ]] || rm -f "$old"
    done
    for new in "$out"/*.cpp; do
      [[ ! -e $new ]] || cmp -s "$new" "$3/$(basename "$new")" || cp "$new" "$3"
    done
    ;;
  sh)
    binary=$3
    blocks sh "$work/blocks"
    blocks 'sh not-run' "$work/not-run"
    if odd=$(grep -hvE '^(git|cd|cmake|ctest|apt-get|sudo apt-get|\./scripts/[a-z]+|\./\.ci/run)( |$)|^$|^#' "$work/not-run"/* 2>/dev/null); then
      echo "$document: marked not-run, though it could be run: $odd"
      exit 1
    fi
    mkdir "$work/bin" "$work/here" "$work/home"
    ln -s "$binary" "$work/bin/holdfast"
    export PATH=$work/bin:$PATH HOME=$work/home XDG_STATE_HOME=$work/home/state
    export HOLDFAST_URL=sqlite:$work/here/locks.db
    count=0
    for block in "$work/blocks"/*; do
      [[ -e $block ]] || break
      count=$((count + 1))
      echo "--- $document:$((10#$(basename "$block")))"
      (cd "$work/here" && timeout 60 bash -euo pipefail "$block" </dev/null) || {
        echo "$document:$((10#$(basename "$block"))): this block failed ($?)"
        exit 1
      }
    done
    echo "--- $count blocks ran"
    ;;
  *)
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 64
    ;;
esac
