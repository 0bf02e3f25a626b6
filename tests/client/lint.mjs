// lint.mjs FILE: what Redocly finds wrong with an OpenAPI document, a line each.
// SPDX-License-Identifier: Apache-2.0
import core from "@redocly/openapi-core";

const config = await core.createConfig({
  extends: ["recommended"],
  rules: {
    "no-invalid-media-type-examples": {
      severity: "error",
      allowAdditionalProperties: true,
    },
    "no-invalid-schema-examples": {
      severity: "error",
      allowAdditionalProperties: true,
    },
    "operation-operationId-unique": "error",
    "operation-tag-defined": "error",
    // ./run is on localhost; probes of operators may have no 4xx of their own.
    "no-server-example.com": "off",
  },
});
const found = await core.lint({ ref: process.argv[2], config });
for (const p of found)
  console.log(`${p.severity} ${p.ruleId} ${p.location[0]?.pointer ?? ""}: ${p.message.split("\n")[0]}`);
