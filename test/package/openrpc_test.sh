#!/usr/bin/env bash
# Checks the schema of the rpc methods by OpenRPC's own schema.
#   openrpc_test.sh PROJECT_DIR HOLDFAST
# Needs Node.js and what scripts/interop-packages installs; without them it is skipped.
set -euo pipefail
root=$1 holdfast=$2
export NODE_PATH=$root/build/interop/node_modules
if ! command -v node >/dev/null || [[ ! -d $NODE_PATH/ajv ]]; then
  echo "skipped: there is no Node.js or no ajv; run scripts/interop-packages"
  [[ ${HOLDFAST_REQUIRE_ALL:-} != 1 ]] || exit 1
  exit 77
fi
# Without a store.
said=$(HOLDFAST_URL=redis://127.0.0.1:1 "$holdfast" rpc --schema | node "$root/test/interop/openrpc.cjs")
echo "$said"
[[ $said == *" methods" ]]
