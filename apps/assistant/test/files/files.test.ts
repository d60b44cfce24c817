import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger, createServer, ProblemError } from '@oselya/kit';
import { create, parse } from 'content-disposition';
import fc from 'fast-check';
import {
  type Files,
  mediaTypeOf,
  TEXT_TYPE,
  toFileName,
  UNKNOWN_TYPE,
} from '../../src/files/files.ts';
import { fileRoutes } from '../../src/files/routes.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';

const special = (code: number) => String.fromCodePoint(code);
const words = (text: string) => text.split('|');
const rejected = [
  ...words('|.|..|a/b|../secret|a\\b|a\0b|a\nb|.env|plan.|plan | plan'),
  ...words('NUL|con.txt|aux .txt|Com1|lpt².log|CONOUT$'),
  ...[0x85, 0x2028, 0x202e].map((code) => `a${special(code)}b`),
  `plan${special(0xa0)}`,
  'a'.repeat(201),
  'ж'.repeat(101),
];
const accepted = [
  ...words('plan.pdf|план квартири (2).pdf|a|-rf|a..b|console.txt|com10|%2e%2e'),
  ...words('nul-and-void.txt|👨‍👩‍👧 сім’я.jpg'),
  'ж'.repeat(100),
];

test('a name is one path segment that all file systems accept', () => {
  for (const name of rejected) {
    assert.throws(
      () => toFileName(name),
      (error) =>
        error instanceof ProblemError &&
        error.code === 'validation_failed' &&
        error.errors?.every(({ path }) => path === 'params/name') === true,
      name,
    );
  }
  for (const name of accepted) assert.equal(toFileName(name), name);
  assert.equal(toFileName('їжак.txt'.normalize('NFD')), 'їжак.txt');
});

test('any text is a safe name that survives the download header, or a problem', () => {
  const pieces = [
    '.',
    ' ',
    '/',
    '\\',
    'con',
    'nul',
    '1',
    'ї',
    '\0',
    special(0x202e),
    '%',
    '"',
    "'",
  ];
  const anyName = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 120 }),
    fc.string({ unit: 'grapheme', maxLength: 120 }),
    fc.array(fc.constantFrom(...pieces), { maxLength: 12 }).map((parts) => parts.join('')),
  );
  let names = 0;
  fc.assert(
    fc.property(anyName, (text) => {
      let name: string;
      try {
        name = toFileName(text);
      } catch (error) {
        assert.ok(error instanceof ProblemError && error.status === 422);
        return;
      }
      names += 1;
      assert.equal(toFileName(name), name);
      assert.doesNotMatch(name, /[/\\\p{Cc}]|^\.|\.$|^$/u);
      assert.ok(Buffer.byteLength(name) <= 200);
      const header = create(name);
      assert.match(header, /^[\x20-\x7e\xa0-\xff]+$/);
      assert.equal(parse(header).parameters['filename'], name);
    }),
    { numRuns: 1000 },
  );
  assert.ok(names > 100, `${names} were accepted`);
});

test('the content determines the media type, and markup is text', async () => {
  for (const [content, type] of [
    ['Дві кімнати', TEXT_TYPE],
    ['', TEXT_TYPE],
    ['<!doctype html><script>alert(1)</script>', TEXT_TYPE],
    ['<?xml version="1.0"?><svg onload="alert(1)"/>', TEXT_TYPE],
    ['#!/bin/sh\nrm -rf /\n', TEXT_TYPE],
    [Buffer.from([0xff, 0x00, 0xfe, 0x81]), UNKNOWN_TYPE],
    ['a\0b', UNKNOWN_TYPE],
    ['%PDF-1.7\n', 'application/pdf'],
    [Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'), 'image/png'],
  ] as const) {
    assert.equal(await mediaTypeOf(Buffer.from(content as string)), type);
  }
});

test('a user has at most six transfers at once, and others are served meanwhile', async (t) => {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'Test', version: '1' },
  });
  t.after(() => app.close());
  app.decorateRequest('user', null);
  app.addHook('onRequest', (request, _reply, done) => {
    request.user = { id: String(request.headers['x-user']) } as never;
    done();
  });
  const held = gate();
  let reading = 0;
  const files = {
    readFile: async () => {
      reading += 1;
      await held.opened;
      return { content: Buffer.from('x'), media_type: 'text/plain' };
    },
  };
  await fileRoutes(app, files as unknown as Files);
  const ask = (user: string) =>
    app
      .inject({ method: 'GET', url: '/sessions/s/files/a', headers: { 'x-user': user } })
      .then((answer) => answer);

  const hers = Array.from({ length: 6 }, () => ask('u-olena'));
  await until(() => reading === 6);
  const seventh = await ask('u-olena');
  assert.equal(seventh.statusCode, 503);
  assert.equal(seventh.headers['retry-after'], '2');
  assert.match(seventh.json().detail, /^6 of your files .*then try again/);
  const his = ask('u-taras');
  await until(() => reading === 7);

  held.open();
  for (const answer of await Promise.all([...hers, his])) assert.equal(answer.statusCode, 200);
  assert.equal((await ask('u-olena')).statusCode, 200);
});
