import assert from 'node:assert/strict';
import { AssistantClient } from '../src/chat/assistant-client.ts';
import { SessionCookieStore } from '../src/chat/session-cookie-store.ts';
import { describeReport } from '../src/commands/assign-legacy.ts';
import { formatResults } from '../src/commands/search.ts';
import { closedAddress, startServer, type Played, type Received } from './support/loopback.ts';
import { oselya } from './support/oselya.ts';
import { type LegacyReport } from '@oselya/assistant';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';

suite('a search', async () => {
  let played: Played;
  let received: Received;
  const { url } = await startServer((request) => {
    received = request;
    return played;
  });

  async function search(answer: Played, env: Record<string, string> = {}) {
    played = answer;
    const args = ['search', '--similar', 'дім', '--limit', '3', '--json'];
    return oselya(args, { COLLECTOR_URL: url, ...env });
  }

  test('options become a query, and --json prints the answer', async () => {
    const body = { items: [], took_ms: 1 };
    const { status, stdout } = await search({ body });
    assert.equal(status, 0);
    assert.deepEqual(JSON.parse(stdout), body);
    assert.equal(`${received.method} ${received.path}`, 'POST /api/v1/search/similar');
    assert.equal(received.headers['content-type'], 'application/json');
    assert.equal(received.headers.authorization, undefined);
    assert.deepEqual(received.body, { query: 'дім', limit: 3 });

    await search({ body }, { COLLECTOR_URL: `${url}/collector/`, COLLECTOR_API_KEY: 'oselya_1_x' });
    assert.equal(received.path, '/collector/api/v1/search/similar');
    assert.equal(received.headers.authorization, 'Bearer oselya_1_x');
  });

  const rejections: [played: Played, expected: RegExp][] = [
    [
      { status: 429, body: { title: 'Too many requests', detail: 'Wait\n12 s.\u001B[2J' } },
      /^oselya: the collector rejected the search \(429\): Wait 12 s\.\[2J\n$/,
    ],
    [
      { status: 422, body: { title: 'No', errors: [{ path: 'query', message: 'is too long' }] } },
      /\(422\): query is too long\n$/,
    ],
    [{ status: 401, body: { title: 'API key needed' } }, /: API key needed: set COLLECTOR_API_KEY/],
    [{ status: 502, body: '<html>Bad gateway' }, /\(502\) without a reason: set COLLECTOR_URL/],
    ...['<html>Welcome', '{}', '{"items": [{"listing": {}}]}', ''].map((body): [Played, RegExp] => [
      { body },
      /is not a collector: set COLLECTOR_URL/,
    ]),
  ];
  test('a rejected search and another server are one line each', async () => {
    for (const [answer, expected] of rejections) {
      const { status, stderr } = await search(answer);
      assert.equal(status, 1);
      assert.match(stderr, expected);
      assert.equal(stderr.trim().split('\n').length, 1);
    }
    const { stderr } = await search({}, { COLLECTOR_URL: await closedAddress() });
    assert.match(stderr, /cannot be reached \(ECONNREFUSED\): start it with npm start, or set/);
  });

  const listing = {
    listing_id: 7,
    title: 'Затишна квартира біля парку',
    summary: 'Двокімнатна квартира.',
    description: 'Продам квартиру.',
    price: 62000,
    currency: 'USD',
    city: 'Львів',
    rooms: 2,
    area_total: 54.5,
  };

  async function firstLine(texts: { title: null; summary?: null; description?: string }) {
    return (await formatResults({ items: [{ listing: { ...listing, ...texts } }] })).split('\n')[0];
  }

  test('a listing is two lines, and the last line counts all', async () => {
    assert.equal(
      await formatResults({
        items: [{ listing, rank: 0.10712 }],
        total: { value: 3, relation: 'eq' },
      }),
      `#7    Затишна квартира біля парку
      62 000 USD · Львів · 2 rooms · 54,5 m² · rank 0.107
3 found, 1 shown`,
    );
  });

  test('a summary or description replaces a missing title', async () => {
    assert.equal(await firstLine({ title: null }), '#7    Двокімнатна квартира.');
    const long = await firstLine({
      title: null,
      summary: null,
      description: 'дім🏡'.repeat(10_000),
    });
    assert.equal(long, `#7    ${'дім🏡'.repeat(22)}д…`);
  });

  test('an empty result and an incomplete ranking are described', async () => {
    assert.equal(
      await formatResults({ items: [], total: { value: 0, relation: 'eq' } }),
      '0 found',
    );
    assert.equal(await formatResults({ items: [] }), '0 found');
    const many = await formatResults({
      items: [{ listing }],
      total: { value: 5000, relation: 'gte' },
    });
    assert.match(many, /^at least 5000 found, 1 shown$/m);
  });

  test('listings are printed without control characters', async () => {
    const evil = 'a\u001B]0;owned\u0007\nb';
    const odd = { ...listing, title: evil, city: evil, currency: evil };
    const text = await formatResults({ items: [{ listing: odd }] });
    assert.equal(text.split('\n').length, 3);
    assert.doesNotMatch(text.replaceAll('\n', ''), /\p{Cc}/u);
  });
});

suite('legacy data', () => {
  suite('report', () => {
    const nothing: LegacyReport = {
      sessions: 0,
      facts: { assigned: 0, replaced: [], kept: [], doubles: 0 },
      summaries: { outcome: 'none', legacy: 0 },
    };
    const run = { userId: 'u-1', dryRun: false };

    test('each kind of assigned data has a line', () => {
      const report: LegacyReport = {
        sessions: 3,
        facts: {
          assigned: 5,
          replaced: [{ category: 'home', key: 'district' }],
          kept: [{ category: 'home', key: 'rooms' }],
          doubles: 2,
        },
        summaries: { outcome: 'merged', legacy: 2 },
      };
      assert.deepEqual(describeReport(report, run), [
        'This is now the data of "u-1".',
        'sessions assigned: 3',
        'facts assigned: 5',
        '  replace an older value of the user: 1',
        '    home / district',
        "  deleted, because the user's own value is newer: 1",
        '    home / rooms',
        '  deleted as doubles of the same name: 2',
        "summary: merged with the user's own (2 as one)",
      ]);
      const [first] = describeReport(report, { ...run, dryRun: true });
      assert.equal(first, 'This would become the data of "u-1". Nothing was changed.');
    });

    test('long lists of names are shortened', () => {
      const kept = Array.from({ length: 23 }, (_, index) => ({ category: 'c', key: `k-${index}` }));
      const lines = describeReport({ ...nothing, facts: { ...nothing.facts, kept } }, run);
      assert.equal(lines.filter((line) => line.startsWith('    c / k-')).length, 20);
      assert.ok(lines.includes('    … and 3 more'));
    });

    test('names are printed without control characters', () => {
      const replaced = [{ category: 'a\u001B[2J\nb', key: 'c\u202Ed' }];
      const lines = describeReport(
        { ...nothing, facts: { ...nothing.facts, assigned: 1, replaced } },
        { ...run, userId: 'u\u202E' },
      );
      assert.ok(lines.includes('    a[2J b / cd'));
      assert.match(String(lines[0]), /"u"/);
    });
  });
});

suite('stored sign-ins', async () => {
  const home = mkdtempSync(join(tmpdir(), 'kept-sign-ins-'));
  after(() => rmSync(home, { recursive: true }));
  const kept = new SessionCookieStore({ XDG_CONFIG_HOME: home });

  let given: object;
  const { url } = await startServer(() => ({ body: given }));
  const redeem = (answer: object) => {
    given = answer;
    return new AssistantClient(url, () => undefined).redeemCode('code', 'verifier');
  };

  const session_id = 'a'.repeat(43);

  test('each assistant has its sign-in', async () => {
    const ours = await redeem({ cookie_name: '__Host-oselya', session_id });
    await kept.keep('https://one.example', ours);
    await kept.keep('https://other.example', await redeem({ cookie_name: 'sid', session_id }));
    assert.deepEqual(await kept.find('https://one.example'), ours);
    assert.deepEqual(ours, { name: '__Host-oselya', value: session_id });
  });

  for (const [what, answer] of Object.entries({
    'an invalid name': { cookie_name: 'a=b; c', session_id },
    'a name with a line end': { cookie_name: 'a\r\nx: y', session_id },
    'no name': { cookie_name: '', session_id },
    'a too long name': { cookie_name: 'a'.repeat(65), session_id },
    'a value with another cookie': { cookie_name: 'a', session_id: `${session_id}; b=c` },
  })) {
    test(`${what} of a cookie is rejected`, async () => {
      await assert.rejects(redeem(answer), /returned an invalid cookie.*set BASE_URL/);
    });
  }
});
