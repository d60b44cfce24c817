import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { LEASE_MS } from '../../src/conversations/turns.ts';
import { errors } from '../../src/errors.ts';
import {
  clientKeys,
  document,
  keyOf,
  type Message,
  type Payload,
  serverKeys,
} from '../helpers/asyncapi.ts';

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
const told = new Set(document.operations['events']?.messages.map(keyOf));
const isEvent = (key: string) => told.has(key);
const isInTurn = (key: string) => messageOf(key).payload.required.includes('seq');
const answerKeys = serverKeys.filter((key) => !isEvent(key));
const eventKeys = serverKeys.filter((key) => isEvent(key) && isInTurn(key));
const besideKeys = serverKeys.filter((key) => isEvent(key) && !isInTurn(key));

function messageOf(key: string): Message {
  const message = document.components.messages[key];
  assert.ok(message, `${key} is not in the document`);
  return message;
}

/** The members that a cell names, as `name`, `name?` or `name {a, b}`; what stands in brackets explains. */
const named = (cell: string) =>
  Array.from(cell.replaceAll(/\(.*?\)/g, '').matchAll(/`([^`]+)`/g), ([, name = '']) => name);

/** The same of a schema, without those that stand in no table. */
const described = ({ properties, required }: Payload, without: string[]) =>
  Object.entries(properties)
    .filter(([name]) => !without.includes(name))
    .map(([name, { properties: inner }]) => {
      const written = required.includes(name) ? name : `${name}?`;
      return inner === undefined ? written : `${written} {${Object.keys(inner).join(', ')}}`;
    });

test('the page names every message of a client, with its members', () => {
  assert.deepEqual(
    sent.map(({ type, cells: [members = ''] }) => [type, named(members)]),
    clientKeys.map((key) => [key, described(messageOf(key).payload, ['type', 'id'])]),
  );
});

test('the page names every answer, with its members', () => {
  assert.deepEqual(
    answers.map(({ type, cells: [members = ''] }) => [type, named(members)]),
    answerKeys.map((key) => [key, described(messageOf(key).payload, ['type', 'id'])]),
  );
});

test('the page names every event, with its members', () => {
  const without = ['type', 'id', ...PLACE];
  assert.deepEqual(
    events.map(({ type, cells: [members = ''] }) => [type, named(members)]),
    eventKeys.map((key) => {
      const { name, payload } = messageOf(key);
      return [name, described(payload, without)];
    }),
  );
});

test('and every event beside the turns', () => {
  assert.deepEqual(
    besides.map(({ type, cells: [members = ''] }) => [type, named(members)]),
    besideKeys.map((key) => [key, described(messageOf(key).payload, ['type'])]),
  );
});

test('the page says who may send a message as the document does', () => {
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

test('the page says what a message is answered with as the document does', () => {
  for (const { type, cells } of sent) {
    const cell = cells[2] ?? '';
    const replies = (document.operations[type]?.reply?.messages ?? []).map(keyOf);
    const own = replies.filter((key) => key !== 'error' && !isEvent(key));
    const inCell = named(cell).filter((name) => answerKeys.includes(name.split(' ')[0] ?? ''));
    // Members are named or left out, but not some of them.
    const expected = own.map((key, index) => {
      const members = Object.keys(messageOf(key).payload.properties).slice(2);
      return inCell[index]?.includes(' ') === true ? `${key} {${members.join(', ')}}` : key;
    });
    assert.deepEqual(inCell, expected, type);
    assert.ok(replies.some(isEvent) ? cell.startsWith('the events') : own.length > 0, type);
  }
});

test('the page has the errors with their statuses', () => {
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

test('the page says how long after its process an answer is cut', () => {
  assert.match(page, new RegExp(`some ${LEASE_MS / 1000} s after the process has gone`));
});
