import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import asyncapi from '@asyncapi/specs/schemas/3.0.0.json' with { type: 'json' };
import { reconnectDelayMs } from '@oselya/chat-client';
import { clientMessages, closings, socketLimits } from '@oselya/protocol';
import { Ajv } from 'ajv';
import formats from 'ajv-formats';
import { LEASE_MS } from '../../src/conversations/turns.ts';
import { errors } from '../../src/errors.ts';
import {
  clientKeys,
  document,
  schemaErrorOf,
  keyOf,
  type Message,
  type Payload,
  serverKeys,
} from '../helpers/asyncapi.ts';

const { operations, components } = document;
const messages = Object.entries(components.messages);

test('The document is valid AsyncAPI 3.0', () => {
  // The official schema includes the schema of JSON Schema.
  const ajv = new Ajv({ strict: false, meta: false, validateSchema: false });
  formats.default(ajv);
  const validate = ajv.compile(asyncapi);
  assert.ok(validate(document), ajv.errorsText(validate.errors));
  const { info, ...rest } = document as typeof document & { info: object };
  assert.ok(!validate(rest));
  assert.ok('title' in info);
});

for (const [key, { description, examples }] of messages) {
  test(`${key} is described, with valid examples`, () => {
    assert.match(description, /\S.*\.$/);
    assert.ok(examples.length > 0);
    for (const { payload } of examples) assert.equal(schemaErrorOf(key, payload), undefined);
  });
}

test('Every message of clients is received with its permission', () => {
  const definitions = clientMessages;
  assert.deepEqual(clientKeys.toSorted(), Object.keys(definitions).toSorted());
  for (const [type, { access }] of Object.entries(definitions)) {
    const operation = operations[type];
    assert.deepEqual(operation?.['x-access'], access, type);
    assert.equal(operation?.security === undefined, access === 'public', type);
  }
});

test('Every message of the server is an answer or an event', () => {
  const sent = new Set<string>();
  for (const [name, { messages: own, reply }] of Object.entries(operations)) {
    const answers = (reply?.messages ?? []).map(keyOf);
    if (clientKeys.includes(name)) assert.ok(answers.includes('error'), name);
    else answers.push(...own.map(keyOf));
    for (const answer of answers) sent.add(answer);
  }
  assert.deepEqual([...sent].toSorted(), serverKeys.toSorted());
});

const page = await readFile(new URL('../../../../docs/protocol.md', import.meta.url), 'utf8');
const [, section = ''] = page.split(/^## Messages$/m);

/** The rows of the tables of messages, in their order. */
const [sent = [], answers = [], events = [], besides = []] = section
  .replace(/^## [^]*/m, '')
  .split(/^\| -.*$/m)
  .slice(1)
  .map((table) =>
    Array.from(table.matchAll(/^\| `([^`]+)` +\|(.*)\|$/gm), ([, type = '', cells = '']) => ({
      type,
      cells: cells.split('|').map((cell) => cell.trim()),
    })),
  );

const PLACE = ['session_id', 'turn_id', 'seq'];
const eventMessages = new Set(document.operations['events']?.messages.map(keyOf));
const isEvent = (key: string) => eventMessages.has(key);
const isInTurn = (key: string) => messageOf(key).payload.required.includes('seq');
const answerKeys = serverKeys.filter((key) => !isEvent(key));
const eventKeys = serverKeys.filter((key) => isEvent(key) && isInTurn(key));
const besideKeys = serverKeys.filter((key) => isEvent(key) && !isInTurn(key));

function messageOf(key: string): Message {
  const message = document.components.messages[key];
  assert.ok(message, `${key} is not in the document`);
  return message;
}

/** Returns the members in a cell, such as `name`, `name?` or `name {a, b}`, without comments in brackets. */
const named = (cell: string) =>
  Array.from(cell.replaceAll(/\(.*?\)/g, '').matchAll(/`([^`]+)`/g), ([, name = '']) => name);

/** Returns the members of a schema that tables list. */
const described = ({ properties, required }: Payload, without: string[]) =>
  Object.entries(properties)
    .filter(([name]) => !without.includes(name))
    .map(([name, { properties: inner }]) => {
      const written = required.includes(name) ? name : `${name}?`;
      return inner === undefined ? written : `${written} {${Object.keys(inner).join(', ')}}`;
    });

test('docs/protocol.md lists every message of clients with its members', () => {
  assert.deepEqual(
    sent.map(({ type, cells: [members = ''] }) => [type, named(members)]),
    clientKeys.map((key) => [key, described(messageOf(key).payload, ['type', 'id'])]),
  );
});

test('docs/protocol.md lists every answer with its members', () => {
  assert.deepEqual(
    answers.map(({ type, cells: [members = ''] }) => [type, named(members)]),
    answerKeys.map((key) => [key, described(messageOf(key).payload, ['type', 'id'])]),
  );
});

test('docs/protocol.md lists every event with its members', () => {
  const without = ['type', 'id', ...PLACE];
  assert.deepEqual(
    events.map(({ type, cells: [members = ''] }) => [type, named(members)]),
    eventKeys.map((key) => {
      const { name, payload } = messageOf(key);
      return [name, described(payload, without)];
    }),
  );
});

test('docs/protocol.md lists every event of a session', () => {
  assert.deepEqual(
    besides.map(({ type, cells: [members = ''] }) => [type, named(members)]),
    besideKeys.map((key) => [key, described(messageOf(key).payload, ['type'])]),
  );
});

test('docs/protocol.md names the permission of every message', () => {
  const needs = new Map(sent.map(({ type, cells }) => [type, cells[1] ?? '']));
  for (const [type, own] of needs) {
    const [, other] = /^as `(.*)`$/.exec(own) ?? [];
    const cell = other === undefined ? own : String(needs.get(other));
    const access = document.operations[type]?.['x-access'];
    assert.equal(cell === 'nothing', access === 'public', type);
    const [permission] = /svc\.\w+\.\w+/.exec(cell) ?? [];
    assert.equal(permission, Reflect.get(Object(access), 'permission'), type);
  }
});

test('docs/protocol.md lists the errors with their statuses', () => {
  const [, behind = ''] = page.split(/^## Errors$/m);
  const [table = ''] = behind.split(/^## /m);
  const rows = Array.from(table.matchAll(/^\| `(\w+)` +\| (\d+) +\|/gm), ([, code, status]) => [
    code,
    Number(status),
  ]);
  const known = new Map<string, number>(
    Object.entries(errors).map(([code, { status }]) => [code, status]),
  );
  assert.ok(rows.length > 20);
  assert.deepEqual(
    rows,
    rows.map(([code]) => [code, known.get(String(code))]),
  );
});

test('docs/protocol.md lists every close code', () => {
  const [, closes = ''] = page.split(/^## Close codes$/m);
  const [rows = ''] = closes.split(/^## /m);
  const codes = Array.from(rows.matchAll(/`(\d{4})`(?=[^\n]*\|[^\n]*\|[^\n]*\|)/g), ([, code]) =>
    Number(code),
  );
  for (const { code } of Object.values(closings)) assert.ok(codes.includes(code), String(code));
  const mayNot = codes.filter((code) => reconnectDelayMs(code, 0) === null);
  assert.deepEqual(mayNot, [4401, 4403, 1002, 1007, 1000, 1001]);
  assert.ok([0, 1, 9].every((attempt) => Number(reconnectDelayMs(4429, attempt)) >= 60_000));
  assert.ok([0, 1, 9].every((attempt) => Number(reconnectDelayMs(1006, attempt)) <= 30_000));
});

test('docs/protocol.md states the limits', () => {
  for (const [limit, value] of [
    ['Size of a message', `${socketLimits.maxMessageBytes / 1024} KiB`],
    ['Messages per minute', String(socketLimits.messagesPerMinute)],
    ['Waiting messages', String(socketLimits.waitingMessages)],
    ['Messages in error per minute', String(socketLimits.errorsPerMinute)],
    ['Unread data', `${socketLimits.maxBufferedBytes / 1024 ** 2} MiB`],
  ] as const) {
    assert.match(page, new RegExp(`^\\| ${limit} +\\| ${value} +\\|`, 'm'));
  }
  assert.ok(page.includes(`ping every ${socketLimits.pingIntervalMs / 1000} s`));
  assert.ok(page.includes(`${LEASE_MS / 1000} s after the process has died`));
});
