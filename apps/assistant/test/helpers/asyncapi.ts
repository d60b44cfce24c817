import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { createAsyncApiDocument } from '../../src/conversations/asyncapi.ts';

export type Message = {
  name: string;
  description: string;
  payload: Payload;
  examples: { payload: object }[];
};

export type Payload = { properties: Record<string, Payload>; required: string[] };

type Reference = { $ref: string };

/** Operation that receives a message and answers it, or sends messages. */
export type Operation = {
  action: 'receive' | 'send';
  security?: Reference[];
  messages: Reference[];
  reply?: { messages: Reference[] };
  'x-access'?: unknown;
};

type AsyncApi = {
  channels: { socket: { 'x-close-codes': { code: number }[] } };
  operations: Record<string, Operation>;
  components: { messages: Record<string, Message> };
};

export const document = createAsyncApiDocument({
  version: '1.0.0',
  cookieName: 'svc_auth_session',
}) as AsyncApi;

const { messages } = document.components;

/** Returns the message key in a reference. */
export const getKey = ({ $ref }: Reference): string => $ref.split('/').at(-1) ?? '';

/** Keys of the client messages, and of the server messages. */
export const clientKeys = Object.values(document.operations)
  .filter(({ action }) => action === 'receive')
  .flatMap((operation) => operation.messages.map(getKey));
export const serverKeys = Object.keys(messages).filter((key) => !clientKeys.includes(key));

const ADDRESS = 'asyncapi.json';
const ajv = new Ajv2020({ strict: false, validateSchema: false, allErrors: true });
formats.default(ajv);
// Unlike clients, tests reject undescribed members.
ajv.addSchema(forbidOtherMembers(document) as object, ADDRESS);

const validators = new Map<string, ValidateFunction>();

function getValidator(key: string): ValidateFunction {
  const cachedValidator = validators.get(key);
  if (cachedValidator !== undefined) return cachedValidator;
  const validator = ajv.compile({ $ref: `${ADDRESS}#/components/messages/${key}/payload` });
  validators.set(key, validator);
  return validator;
}

/** Returns the schema error of a message, or undefined. */
export function findSchemaError(key: string, message: unknown): string | undefined {
  const validate = getValidator(key);
  return validate(message) ? undefined : `${key}: ${ajv.errorsText(validate.errors)}`;
}

/** Fails unless the document describes a server message and all its members. */
export function checkFrame(frame: { type: string; seq?: unknown }): void {
  const key = frame.type === 'error' && 'seq' in frame ? 'error.event' : frame.type;
  assert.ok(serverKeys.includes(key), `The document has no message ${key} of the server`);
  const fault = findSchemaError(key, frame);
  assert.equal(fault, undefined, `${fault}: ${JSON.stringify(frame)}`);
}

/**
 * Fails unless the document and the server agree on whether a client message is valid.
 * @param code The code of the error; undefined after a success.
 */
export function checkAccepted(message: { type?: unknown }, code: string | undefined): void {
  const key = String(message.type);
  if (!clientKeys.includes(key)) return;
  const fault = findSchemaError(key, JSON.parse(JSON.stringify(message)));
  const messageText = JSON.stringify(message);
  if (code === undefined)
    assert.equal(fault, undefined, `accepted against the document: ${messageText}`);
  if (code === 'validation_failed')
    assert.ok(fault, `rejected against the document: ${messageText}`);
}

/** Returns a copy of a schema that forbids additional properties. */
function forbidOtherMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(forbidOtherMembers);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name, forbidOtherMembers(member)]);
  const isObject = 'properties' in value && 'type' in value && value.type === 'object';
  return { ...(isObject && { additionalProperties: false }), ...Object.fromEntries(members) };
}
