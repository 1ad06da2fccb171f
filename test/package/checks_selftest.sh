#!/usr/bin/env bash
# Shows that the checks can fail: feeds each rule a sample that breaks it and one that does not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0 count=0

# sample CHECK good|bad FILE TEXT: whether CHECK accepts a project of this one file (beside a harmless one).
sample() {
  local check=$1 expected=$2 file=$3 text=$4 tree=$work/tree output verdict=good
  rm -rf "$tree"
  mkdir -p "$tree/include/holdfast" "$tree/src/core" "$tree/cli" "$tree/$(dirname "$file")"
  printf '#pragma once\n\n#include <string>\n' >"$tree/include/holdfast/harmless.hpp"
  printf '%b' "$text" >"$tree/$file"
  output=$("$here/$check" "$tree" 2>&1) || verdict=bad
  count=$((count + 1))
  if [[ $verdict != "$expected" ]]; then
    echo "$check takes this for $verdict: $file: $text"
    echo "$output"
    wrong=$((wrong + 1))
  elif [[ $verdict == bad && $output != *"$(basename "$file")"* ]]; then
    echo "$check does not name $file: $output"
    wrong=$((wrong + 1))
  fi
}
include() { sample check_includes.sh "$1" "$2" "#include $3\n"; }
style() { sample check_style.sh "$@"; }

include good include/holdfast/a.hpp '<holdfast/error.hpp>'
include bad include/holdfast/a.hpp '"core/nfc.hpp"'
include bad include/holdfast/a.hpp '<sqlite3.h>'
include bad include/holdfast/a.hpp '<unistd.h>'
include bad include/holdfast/a.hpp '<nlohmann/json.hpp>'
include good include/holdfast/nlohmann.hpp '<nlohmann/json.hpp>'
include good src/core/a.cpp '<holdfast/lock_types.hpp>'
include bad src/core/a.cpp '<holdfast/lock_backend.hpp>'
include good src/core/lock_decisions.hpp '<holdfast/lock_backend.hpp>'
include good src/core/output_decisions.hpp '<holdfast/output_requests.hpp>'
include bad src/core/lock_decisions.hpp '<holdfast/memory.hpp>'
include bad src/core/a.cpp '"os/random.hpp"'
include bad src/core/a.cpp '<mutex>'
include bad src/core/a.cpp '<unistd.h>'
include bad src/core/a.cpp '<nlohmann/json.hpp>'
include good src/os/a.cpp '"core/digest.hpp"'
include good src/os/a.cpp '<sys/mman.h>'
include bad src/os/a.cpp '"engine/memory/table.hpp"'
include bad src/os/a.cpp '<holdfast/locks.hpp>'
include bad src/os/a.cpp '"runtime/worker_pool.hpp"'
include good src/runtime/a.cpp '"os/random.hpp"'
include bad src/runtime/a.cpp '"waiting/wake_table.hpp"'
include bad src/runtime/a.cpp '"locks/held_lock.hpp"'
include good src/waiting/a.cpp '"runtime/worker_pool.hpp"'
include bad src/waiting/a.cpp '"engine/memory/table.hpp"'
include bad src/attic/a.cpp '<string>'
include bad attic/a.cpp '<string>'
include good view/store_view.cpp '<mutex>'
include good view/read_pace.cpp '"view/snapshot.hpp"'
include bad view/read_pace.cpp '<mutex>'
include bad view/store_view.cpp '<nlohmann/json.hpp>'
include good cli/top/a.cpp '"view/snapshot.hpp"'
include bad rpc/json/a.cpp '"view/snapshot.hpp"'
include good serve/site/a.cpp '"view/store_view.hpp"'
include good serve/site/a.cpp '"rpc/session/event.hpp"'
include good serve/transport/a.cpp '"serve/http/request.hpp"'
include bad serve/http/a.cpp '"serve/site/site.hpp"'
include bad serve/site/a.cpp '<boost/beast/http.hpp>'
include good serve/http/a.cpp '<boost/beast/http.hpp>'
include bad serve/access/decision.cpp '<thread>'
include bad serve/site/a.cpp '<CLI/CLI.hpp>'
include good cli/serve/a.cpp '"serve/transport/server.hpp"'
include bad cli/run/a.cpp '"serve/transport/server.hpp"'
include bad rpc/json/a.cpp '"serve/http/request.hpp"'
include good test/unit/a.cpp '<string>'
include good src/engine/memory/a.cpp '"engine/memory/table.hpp"'
include good src/engine/memory/a.cpp '"waiting/wake_table.hpp"'
include bad src/engine/memory/a.cpp '"engine/sqlite/database.hpp"'
include bad src/engine/memory/a.cpp '"locks/acquire_loop.hpp"'
include bad src/engine/memory/a.cpp '<holdfast/guard.hpp>'
include bad src/engine/memory/a.cpp '<holdfast/sqlite.hpp>'
include bad src/engine/memory/a.cpp '<sqlite3.h>'
include good src/engine/sqlite/a.cpp '<sqlite3.h>'
include good src/locks/a.cpp '<thread>'
include bad src/locks/a.cpp '"engine/memory/table.hpp"'
include bad src/locks/a.cpp '<holdfast/memory.hpp>'
include bad src/locks/a.cpp '"tasks/store.hpp"'
include good src/tasks/a.cpp '"locks/held_lock.hpp"'
include bad src/tasks/a.cpp '"decorate/observation.hpp"'
include good src/decorate/a.cpp '"runtime/turn.hpp"'
include bad src/decorate/a.cpp '"waiting/wake_table.hpp"'
include bad src/decorate/a.cpp '"tasks/store.hpp"'
include good src/locks/acquire_loop.cpp '<holdfast/clock.hpp>'
include bad src/locks/acquire_loop.cpp '<thread>'
include bad src/locks/renew_loop.hpp '<condition_variable>'
include bad src/locks/renew_loop.hpp '"os/random.hpp"'
include bad src/engine/redis/wire/reader.cpp '<sys/socket.h>'
include bad src/engine/redis/lock.cpp '<asio.hpp>'
include bad src/engine/redis/lock.cpp '<openssl/ssl.h>'
include bad src/engine/redis/conn/dialer.cpp '<sys/socket.h>'
include bad src/os/a.cpp '<netdb.h>'
include good src/engine/redis/conn/stream.hpp '<sys/socket.h>'
include good src/engine/redis/conn/stream_tls.cpp '<openssl/ssl.h>'
include good src/engine/redis/wire/reply.hpp '<hiredis/hiredis.h>'
include good src/engine/redis/conn/dialer.cpp '"engine/redis/wire/errors.hpp"'
include bad src/engine/redis/conn/dialer.cpp '"engine/redis/client.hpp"'
include bad src/engine/redis/wire/errors.cpp '"engine/redis/conn/dialer.hpp"'
include bad src/engine/sqlite/a.cpp '<hiredis/hiredis.h>'
include bad cli/run/a.cpp '<hiredis/hiredis.h>'
include bad cli/run/a.cpp '<asio.hpp>'
include good cli/run/a.cpp '<holdfast/holdfast.hpp>'
include bad cli/run/a.cpp '"core/nfc.hpp"'
include bad cli/run/a.cpp '"../src/core/nfc.hpp"'
include good cli/main.cpp '"arguments/context.hpp"'
include good cli/run/a.cpp '"terminal/output.hpp"'
include good cli/run/a.cpp '"rpc/json/text.hpp"'
include good cli/terminal/a.cpp '"terminal/output.hpp"'
include bad cli/terminal/a.cpp '"arguments/values.hpp"'
include bad cli/process/a.cpp '"task/access.hpp"'
include bad cli/run/a.cpp '"task/access.hpp"'
include bad cli/run/a.cpp '"unknown/a.hpp"'
include bad cli/run/a.cpp '"rpc/unknown/a.hpp"'
include bad cli/run/a.cpp '"output.hpp"'
include bad cli/a.cpp '<string>'
include bad cli/common/a.cpp '<string>'
include bad cli/run/deeper/a.cpp '<string>'
include good rpc/session/a.cpp '<asio/awaitable.hpp>'
include good rpc/transport/a.cpp '"rpc/session/session.hpp"'
include bad rpc/session/a.cpp '"rpc/transport/server.hpp"'
include bad rpc/session/a.cpp '"rpc/methods/methods.hpp"'
include bad rpc/session/a.cpp '"terminal/output.hpp"'
include bad rpc/session/a.cpp '<CLI/CLI.hpp>'
include bad rpc/session/a.cpp '"core/nfc.hpp"'
include bad rpc/common/a.cpp '<string>'
include bad examples/a.cpp '"os/random.hpp"'
include bad bench/a.cpp '"locks/acquire_loop.hpp"'
include bad bench/a.cpp ' "engine/memory/table.hpp"  // sneaky'
sample check_includes.sh bad src/locks/acquire_loop.cpp 'auto t = BootClock::now();\n'
sample check_includes.sh bad src/locks/connect_fsm.cpp 'std::this_thread::sleep_for(d);\n'
sample check_includes.sh bad src/core/a.hpp 'auto t = BootClock::now();\n'
sample check_includes.sh bad src/engine/redis/listings.cpp 'auto t = BootClock::now();\n'
sample check_includes.sh bad src/core/lock_decisions.hpp 'void ask(LockBackend& backend);\n'
sample check_includes.sh good src/locks/driver.cpp 'auto t = BootClock::now();\n'

long=$(printf '\\n%.0s' {1..601})
style good src/core/a.cpp 'int a;\n'
style bad src/core/a.cpp "$long"
style bad serve/site/a.cpp "$long"
style bad view/a.cpp "$long"
style good test/a.cpp "$long"
style bad src/core/a.cpp '\tint a;\n'
style bad src/core/a.cpp 'int a; \n'
style bad docs/a.md 'word \n'
style bad serve/page/page.js 'let a; \n'
style bad view/a.hpp 'int a;\n'
style bad src/core/a.cpp "// TO""DO: later\n"
style bad scripts/a "# FIX""ME\n"
style bad src/core/a.hpp 'int a;\n'
style bad src/core/a.hpp '#pragma once\nusing namespace std;\n'
style good src/core/a.cpp 'using namespace std::literals;\n'
style bad src/core/a.cpp 'int a;'
style bad cli/task/a.cpp 'command.add_option("NAME=JSON", options->variables, "Variables");\n'
style good cli/task/a.cpp 'command.add_option("--variables NAME=JSON", options->variables, "Variables");\n'

links() { sample check_links.py "$1" docs/README.md "# A page: \`one\`\n\n$2\n"; }
links good '[x](../include/holdfast/harmless.hpp), [y](#a-page-one), [z](README.md#a-page-one)'
# shellcheck disable=SC2016  # backquotes of Markdown
links good '[x](README.md)\n```\n[y](gone.md)\n```\n`[z](gone.md)`'
links bad '[x](gone.md)'
links bad '![x](gone.svg)'
links bad '[x](#another)'
links bad '[x](README.md#another)'
links bad '[x](../../../../../etc/passwd)'
sample check_links.py bad docs/lonely.md '[x](lonely.md)\n'
sample check_links.py bad src/core/a.cpp '// See docs/gone.md.\n'

mkdir "$work/empty"
for check in check_includes.sh check_style.sh check_links.py; do
  if "$here/$check" "$work/empty" >/dev/null 2>&1; then
    echo "$check is content with an empty directory"
    wrong=$((wrong + 1))
  fi
done

echo "$count samples, $wrong judged wrongly"
[[ $wrong -eq 0 ]]
