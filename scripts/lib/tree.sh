# shellcheck shell=bash
# Build trees, as the scripts share them. Source it from the project's root.

# configure_tree PRESET DIR [-DVAR=VALUE...]: configures a tree that is new, or whose settings differ from
# those asked for; otherwise leaves it to ninja to notice what changed. ccache is chosen once, when the tree
# is new: a compiler launcher that comes later would rebuild everything.
configure_tree() {
  local preset=$1 dir=$2
  shift 2
  local arguments=("$@")
  if [[ ! -e $dir/build.ninja ]]; then
    if command -v ccache >/dev/null; then
      arguments+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    fi
  elif tree_has "$dir" "$@"; then
    return 0
  fi
  local output
  output=$(cmake --preset "$preset" "${arguments[@]}" --log-level=WARNING 2>&1) || {
    echo "$output" >&2
    return 1
  }
}

# tree_has DIR [-DVAR=VALUE...]: whether the tree's cache already says so.
tree_has() {
  local dir=$1 wanted name
  shift
  for wanted in "$@"; do
    name=${wanted#-D}
    grep -q "^${name%%=*}:[A-Z]*=${name#*=}\$" "$dir/CMakeCache.txt" || return 1
  done
}
