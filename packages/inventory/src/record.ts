import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ValidateFunction } from 'ajv/dist/2020.js';
import schema from '../endpoint.schema.json' with { type: 'json' };

/** One endpoint of the inventory (Specification 002). Extra properties are allowed and kept. */
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

/** All exposures, the widest first; an unknown one may be anything but public. */
export const EXPOSURES: readonly EndpointRecord['exposure'][] = [
  'public',
  'unknown',
  'vpn',
  'private',
  'local',
];

/** The types of the properties that the specification names. */
export const PROPERTY_TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries(schema.items.properties).map(([key, { type }]) => [key, type]),
);

/** The names of the properties that each record must have. */
export const REQUIRED_KEYS: ReadonlySet<string> = new Set(schema.items.required);

// Only own properties count: `{}` must not satisfy a required `toString`, nor may `__proto__` provide one.
const ajv = new Ajv2020({ allErrors: true, ownProperties: true });
ajv.addSchema(schema);

function compileSchema<T>(reference: string): ValidateFunction<T> {
  const validate = ajv.getSchema<T>(reference);
  if (validate === undefined) throw new Error(`the endpoint schema has no ${reference}`);
  return validate;
}

/** Tells whether a parsed value is one endpoint record; its `errors` hold what Ajv found. */
export const isEndpointRecord = compileSchema<EndpointRecord>(`${schema.$id}#/items`);

/** Tells whether a parsed value is a whole inventory; its `errors` hold what Ajv found. */
export const isInventory = compileSchema<EndpointRecord[]>(schema.$id);
