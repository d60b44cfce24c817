import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import schema from '../endpoint.schema.json' with { type: 'json' };

/** One endpoint of the inventory (Specification 002). Extra properties are valid. */
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

/** All exposures, widest first. An unknown exposure counts as wider than any exposure except public. */
export const EXPOSURES = ['public', 'unknown', 'vpn', 'private', 'local'] as const;

/** JSON types of the properties that the schema defines, by property name. */
export const PROPERTY_TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries(schema.items.properties).map(([key, { type }]) => [key, type]),
);

export const REQUIRED_KEYS: ReadonlySet<string> = new Set(schema.items.required);

// Inherited properties must not satisfy `required`.
const ajv = new Ajv2020({ allErrors: true, ownProperties: true });
ajv.addSchema(schema);

function compileSchema<T>(reference: string): ValidateFunction<T> {
  const validate = ajv.getSchema<T>(reference);
  if (validate === undefined) throw new Error(`the endpoint schema has no ${reference}`);
  return validate;
}

/** Returns whether a parsed value is an endpoint record. Stores Ajv errors in the function's property `errors`. */
export const isEndpointRecord = compileSchema<EndpointRecord>(`${schema.$id}#/items`);

/** Returns whether a parsed value is an inventory. Stores Ajv errors in the function's property `errors`. */
export const isInventory = compileSchema<EndpointRecord[]>(schema.$id);
