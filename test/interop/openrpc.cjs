// Checks a schema of the rpc methods by OpenRPC's own schema, and each JSON Schema in it by JSON Schema's:
//   holdfast rpc --schema | node openrpc.cjs
// Prints how many methods it has. With NODE_PATH where scripts/interop-packages put the packages.
const Ajv = require('ajv');
const { readFileSync } = require('node:fs');
const metaSchema = require('@open-rpc/meta-schema').default;

const document = JSON.parse(readFileSync(0, 'utf8'));
const ajv = new Ajv({ strict: false, validateFormats: false });
// OpenRPC's schema leaves the schemas in a document to this one, which is JSON Schema draft 7.
ajv.addSchema({
  $id: 'https://meta.json-schema.tools/',
  allOf: [{ $ref: 'http://json-schema.org/draft-07/schema#' }],
  definitions: { JSONSchemaObject: { properties: { $ref: { type: 'string' } } } },
});
const isOpenRpc = ajv.compile(
  JSON.parse(JSON.stringify({ ...metaSchema, $schema: undefined }).replaceAll('schema.tools"', 'schema.tools/"')));
if (!isOpenRpc(document)) {
  console.error(isOpenRpc.errors);
  process.exit(1);
}
// References within the document are resolved as it stands; the one to OpenRPC's own schema is replaced.
document.components.schemas.OpenRpc = {};
document.$id = 'openrpc.json';
ajv.addSchema({ $id: document.$id, components: document.components });
const compile = (schema) => ajv.compile({ $id: `part${Math.random()}.json`, ...absolute(schema) });
const absolute = (schema) => JSON.parse(JSON.stringify(schema).replaceAll('"#/', `"${document.$id}#/`));
for (const { params, result } of document.methods) {
  for (const { schema } of [...params, result]) compile(schema);
}
for (const { schema } of Object.values(document['x-notifications'])) compile(schema);
console.log(`${document.methods.length} methods`);
