import assert from 'node:assert/strict';
import { test } from 'node:test';
import asyncapi from '@asyncapi/specs/schemas/3.0.0.json' with { type: 'json' };
import { Ajv } from 'ajv';
import formats from 'ajv-formats';
import { closings } from '@oselya/protocol';
import { clientMessages } from '@oselya/protocol';
import { clientKeys, document, faultOf, keyOf, serverKeys } from '../helpers/asyncapi.ts';

const { operations, components, channels } = document;
const messages = Object.entries(components.messages);

test('the document is valid AsyncAPI 3.0', () => {
  // The official schema brings the one of JSON Schema along.
  const ajv = new Ajv({ strict: false, meta: false, validateSchema: false });
  formats.default(ajv);
  const validate = ajv.compile(asyncapi);
  assert.ok(validate(document), ajv.errorsText(validate.errors));
  const { info, ...rest } = document as typeof document & { info: object };
  assert.ok(!validate(rest), 'a document without info is none');
  assert.ok('title' in info);
});

test('every reference leads somewhere', () => {
  const refs = Array.from(JSON.stringify(document).matchAll(/"\$ref":"([^"]*)"/g), ([, ref]) =>
    String(ref),
  );
  assert.ok(refs.length > messages.length);
  for (const ref of new Set(refs)) {
    const [root, ...keys] = ref.split('/');
    assert.equal(root, '#', ref);
    let found: unknown = document;
    for (const key of keys) found = Reflect.get(Object(found), key);
    assert.ok(found, ref);
  }
});

for (const [key, { description, examples }] of messages) {
  test(`${key} is described, and its examples are valid`, () => {
    assert.match(description, /\S.*\.$/);
    assert.ok(examples.length > 0);
    for (const { payload } of examples) assert.equal(faultOf(key, payload), undefined);
  });
}

test('every message of a client is received, by whom the code lets send it', () => {
  const definitions = clientMessages;
  assert.deepEqual(clientKeys.toSorted(), Object.keys(definitions).toSorted());
  for (const [type, { access }] of Object.entries(definitions)) {
    const operation = operations[type];
    assert.deepEqual(operation?.['x-access'], access, type);
    assert.equal(operation?.security === undefined, access === 'public', type);
  }
});

test('every message of the server is an answer or an event, and every message can be refused', () => {
  const sent = new Set<string>();
  for (const [name, { messages: own, reply }] of Object.entries(operations)) {
    const answers = (reply?.messages ?? []).map(keyOf);
    if (clientKeys.includes(name)) assert.ok(answers.includes('error'), name);
    else answers.push(...own.map(keyOf));
    for (const answer of answers) sent.add(answer);
  }
  assert.deepEqual([...sent].toSorted(), serverKeys.toSorted());
});

test('every close code of the server is named', () => {
  const codes = new Set(channels.socket['x-close-codes'].map(({ code }) => code));
  const own = Object.values(closings).map(({ code }) => code);
  // The library closes with 1009.
  assert.deepEqual(codes, new Set([...own, 1009]));
});

for (const [what, key, message] of [
  ['a surplus member', 'ping', { type: 'ping', surplus: 1 }],
  ['an id that is neither text nor a whole number', 'ping', { type: 'ping', id: true }],
  ['a missing member', 'session.open', { type: 'session.open' }],
  ['a text without anything to read', 'message.send', { session_id: 's', text: ' \n' }],
  ['a member of the server that is not described', 'pong', { type: 'pong', surplus: 1 }],
  ['an event without its place', 'message.delta', { type: 'message.delta', text: 'x' }],
  ['an event with the number 0', 'message.delta', { text: 'x', seq: 0 }],
] as const) {
  test(`${what} is told from what is described`, () => {
    const [example] = components.messages[key]?.examples ?? [];
    const isAlone = 'type' in message;
    const changed = isAlone ? message : { ...example?.payload, ...message };
    assert.ok(faultOf(key, changed));
  });
}
