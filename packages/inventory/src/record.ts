import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ValidateFunction } from 'ajv/dist/2020.js';
import schema from '../endpoint.schema.json' with { type: 'json' };

/**
 * One endpoint of the inventory (Specification 002, Resources and their fields).
 * Extra properties are allowed and kept as they are.
 */
export type EndpointRecord = {
  id: string;
  name: string;
  type: string;
  status: string;
  exposure: 'public' | 'vpn' | 'local' | 'private' | 'unknown';
  docs: string;
  last_reviewed: string;
  url?: string;
  protocol?: string;
  host?: string;
  port?: number;
  domain?: string;
  service?: string;
  owner_host?: string;
  purpose?: string;
  auth?: string;
  notes?: string;
  source_of_truth?: string;
  [extra: string]: unknown;
};

// Only a record's own properties count: `{}` must not satisfy a required `toString`, nor may a
// `__proto__` key lend it one.
const ajv = new Ajv2020({ allErrors: true, ownProperties: true });
ajv.addSchema(schema);

function compiled<T>(reference: string): ValidateFunction<T> {
  const validate = ajv.getSchema<T>(reference);
  if (validate === undefined) throw new Error(`the endpoint schema has no ${reference}`);
  return validate;
}

/** Tells whether a parsed value is one endpoint record; its `errors` hold what Ajv found. */
export const isEndpointRecord = compiled<EndpointRecord>(`${schema.$id}#/items`);

/** Tells whether a parsed value is a whole inventory; its `errors` hold what Ajv found. */
export const isInventory = compiled<EndpointRecord[]>(schema.$id);
