// Reads {"document": ..., "checks": [{"name", "schema", "value"}]} and prints
// what does not hold, a line each. Schemas refer to the document by "#/".
// SPDX-License-Identifier: Apache-2.0
import Ajv from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { readFileSync } from "node:fs";

const { document, checks } = JSON.parse(readFileSync(0, "utf8"));
const ajv = new Ajv.default({ strict: false, allErrors: true });
formats.default(ajv);
ajv.addSchema(document, "doc:/", undefined, false);
const made = new Map();
for (const { name, schema, value } of checks) {
  const text = JSON.stringify(schema).replaceAll('"#/', '"doc:/#/');
  if (!made.has(text)) made.set(text, ajv.compile(JSON.parse(text)));
  const check = made.get(text);
  if (!check(value))
    console.log(`${name}: ${ajv.errorsText(check.errors, { separator: "; " })}`);
}
