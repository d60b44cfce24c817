import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { createAsyncApiDocument } from '../../src/conversations/asyncapi.ts';

/** A message of the document. */
export type Message = {
  name: string;
  description: string;
  payload: Payload;
  examples: { payload: object }[];
};

/** The schema of a message. */
export type Payload = { properties: Record<string, Payload>; required: string[] };

type Reference = { $ref: string };

/** A received message with its answers, or sent messages. */
export type Operation = {
  action: 'receive' | 'send';
  security?: Reference[];
  messages: Reference[];
  reply?: { messages: Reference[] };
  'x-access'?: unknown;
};

/** The parts of the document that tests use. */
export type AsyncApi = {
  channels: { socket: { 'x-close-codes': { code: number }[] } };
  operations: Record<string, Operation>;
  components: { messages: Record<string, Message> };
};

/** The document of the protocol. */
export const document = createAsyncApiDocument({
  version: '1.0.0',
  cookieName: 'svc_auth_session',
}) as AsyncApi;

const { messages } = document.components;

/** Returns the key of the message of a reference. */
export const keyOf = ({ $ref }: Reference): string => $ref.split('/').at(-1) ?? '';

/** The keys of the messages of clients, and of the server. */
export const clientKeys = Object.values(document.operations)
  .filter(({ action }) => action === 'receive')
  .flatMap((operation) => operation.messages.map(keyOf));
export const serverKeys = Object.keys(messages).filter((key) => !clientKeys.includes(key));

const ADDRESS = 'asyncapi.json';
const ajv = new Ajv2020({ strict: false, validateSchema: false, allErrors: true });
formats.default(ajv);
// Unlike clients, tests reject undescribed members.
ajv.addSchema(closed(document) as object, ADDRESS);

const validators = new Map<string, ValidateFunction>();

function validatorOf(key: string): ValidateFunction {
  const known = validators.get(key);
  if (known !== undefined) return known;
  const validator = ajv.compile({ $ref: `${ADDRESS}#/components/messages/${key}/payload` });
  validators.set(key, validator);
  return validator;
}

/** Returns the error of a message by its schema, or undefined. */
export function schemaErrorOf(key: string, message: unknown): string | undefined {
  const validate = validatorOf(key);
  return validate(message) ? undefined : `${key}: ${ajv.errorsText(validate.errors)}`;
}

/** Fails unless a message of the server and all its members are described. */
export function checkFrame(frame: { type: string; seq?: unknown }): void {
  const key = frame.type === 'error' && 'seq' in frame ? 'error.event' : frame.type;
  assert.ok(serverKeys.includes(key), `The document has no message ${key} of the server`);
  const fault = schemaErrorOf(key, frame);
  assert.equal(fault, undefined, `${fault}: ${JSON.stringify(frame)}`);
}

/**
 * Fails unless the document and the server agree whether a message of a client is valid.
 * @param code The code of the error; undefined after a success.
 */
export function checkAccepted(message: { type?: unknown }, code: string | undefined): void {
  const key = String(message.type);
  if (!clientKeys.includes(key)) return;
  const fault = schemaErrorOf(key, JSON.parse(JSON.stringify(message)));
  const shown = JSON.stringify(message);
  if (code === undefined) assert.equal(fault, undefined, `accepted against the document: ${shown}`);
  if (code === 'validation_failed') assert.ok(fault, `rejected against the document: ${shown}`);
}

/** Returns a schema whose objects have no other members than the named ones. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const parts = Object.entries(value).map(([name, part]) => [name, closed(part)]);
  const isObject = 'properties' in value && 'type' in value && value.type === 'object';
  return { ...(isObject && { additionalProperties: false }), ...Object.fromEntries(parts) };
}
