# shellcheck shell=bash
# Build trees, as the scripts share them. Source it from the project's root.

# How ccache is called, as a CMake list. Keyed so that a clone in another directory finds what this one compiled:
# paths below the project count relative to it, the working directory does not count, and precompiled headers are
# compared by their content. Dependencies come from the compiler's own list, so nothing is preprocessed twice.
ccache_launcher="cmake;-E;env;CCACHE_BASEDIR=$PWD;CCACHE_NOHASHDIR=1;CCACHE_DEPEND=1"
ccache_launcher+=";CCACHE_SLOPPINESS=pch_defines,time_macros;ccache"

# Whether ccache is there and can write to its cache: an unwritable one would fail every compilation.
ccache_works() {
  local cache
  command -v ccache >/dev/null && cache=$(ccache -k cache_dir 2>/dev/null) &&
    mkdir -p "$cache/tmp" 2>/dev/null && [[ -w $cache/tmp ]]
}


# configure_tree PRESET DIR [-DVAR=VALUE...]: configures a tree that is new, or whose settings differ from
# those asked for or are older than the presets; otherwise leaves it to ninja to notice what changed. ccache is chosen once, when the tree
# is new: a compiler launcher that comes later would rebuild everything.
configure_tree() {
  local preset=$1 dir=$2
  shift 2
  local arguments=("$@")
  if [[ ! -e $dir/build.ninja ]]; then
    if ccache_works; then
      arguments+=("-DCMAKE_CXX_COMPILER_LAUNCHER=$ccache_launcher")
    fi
  elif [[ ! CMakePresets.json -nt $dir/CMakeCache.txt ]] && tree_has "$dir" "$@"; then
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
