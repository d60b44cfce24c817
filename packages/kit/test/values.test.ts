import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import Fastify from 'fastify';
import { renderInlineCode } from '../src/http/page.ts';
import { MAX_RETRY_AFTER_MS, parseRetryAfter } from '../src/http/retry-after.ts';
import {
  getClientNetwork,
  formatListingId,
  formatNumber,
  formatPrice,
  paginate,
} from '../src/index.ts';

test('numbers, prices and ids have one format', () => {
  assert.deepEqual([9500, 1_234_567.125, 52.5].map(formatNumber), [
    '9\u00A0500',
    '1\u00A0234\u00A0567,13',
    '52,5',
  ]);
  assert.equal(formatPrice(15_000, 'UAH'), '15\u00A0000\u00A0UAH');
  for (const none of [null, undefined, '']) assert.equal(formatPrice(15_000, none), '15\u00A0000');
  assert.equal(formatListingId(22), '#22');
});

const NETWORKS = [
  ['192.0.2.1', '192.0.2.1'],
  ['127.0.0.1', '127.0.0.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::ffff:c000:201', '192.0.2.1'],
  ['0:0:0:0:0:FFFF:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
  ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
  ['2001:db8::1', '2001:db8::/64'],
  ['::1', '::/64'],
  ['fe80::1%eth0', 'fe80::/64'],
  ['unknown', 'unknown'],
  ['192.0.2.1:5678', '192.0.2.1:5678'],
  ['', ''],
] as const;

test('clients are counted by IPv4 address or IPv6 network', () => {
  for (const [address, network] of NETWORKS)
    assert.equal(getClientNetwork(address), network, address);
});

const write = (...halves: number[][]) =>
  halves
    .flat()
    .map((part) => part.toString(16))
    .join(':');

test('the first half of an IPv6 address identifies a client', () => {
  const half = fc.array(fc.integer({ min: 1, max: 0xff_ff }), { minLength: 4, maxLength: 4 });
  fc.assert(
    fc.property(half, half, half, half, (one, other, host, otherHost) => {
      const network = getClientNetwork(write(one, host));
      assert.equal(getClientNetwork(write(one, otherHost)), network);
      const isSame = write(one) === write(other);
      assert.equal(getClientNetwork(write(other, host)) === network, isSame);
    }),
  );
});

const NOW = Date.parse('2026-11-26T10:00:00Z');

const UNDERSTOOD: readonly [header: string, seconds: number][] = [
  ['57', 57],
  [' 0 ', 0],
  ['007', 7],
  ['1.5', 1.5],
  ['Thu, 26 Nov 2026 10:01:30 GMT', 90],
  ['Thursday, 26-Nov-26 10:01:30 GMT', 90],
  ['Thu Nov 26 10:01:30 2026', 90],
  ['Tue Dec  1 10:00:00 2026', 5 * 24 * 3600],
  ['Thu, 26 Nov 2026 09:00:00 GMT', 0],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 0],
  ['99999999999', MAX_RETRY_AFTER_MS / 1000],
  ['9'.repeat(400), MAX_RETRY_AFTER_MS / 1000],
  ['Sat, 21 Nov 2099 10:00:00 GMT', MAX_RETRY_AFTER_MS / 1000],
];

test('seconds and dates are understood', () => {
  for (const [header, seconds] of UNDERSTOOD) {
    assert.equal(parseRetryAfter(header, NOW), seconds * 1000, header);
  }
});

test('times are limited to the maximum of a timer', () => {
  assert.ok(MAX_RETRY_AFTER_MS < 2 ** 31);
});

test('other values are rejected', () => {
  const others = ['', '-1', '+5', 'soon', '1e3', '5 s', '1.', 'NaN', '0x10', '5, 6', '2026-11-21'];
  const dates = ['Sat, soon', 'Thu, 26 Nov 2026 10:01:30', 'Sat, 26 Xyz 2026 10:01:30 GMT'];
  for (const header of [...others, ...dates, null, undefined]) {
    assert.equal(parseRetryAfter(header, NOW), undefined, String(header));
  }
});

test('dates are in UTC', () => {
  const zone = process.env['TZ'];
  process.env['TZ'] = 'America/New_York';
  try {
    assert.equal(parseRetryAfter('Thu Nov 26 10:00:10 2026', NOW), 10_000);
  } finally {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  }
});

const app = Fastify({ logger: false });
app.get<{ Querystring: { limit: number } }>('/rows', (request, reply) =>
  paginate([1, 2, 3], { limit: 2, cursorOf: (row) => `after ${row}`, request, reply }),
);

/** The query of the next page. */
async function nextOf(query: URLSearchParams): Promise<URLSearchParams> {
  const { headers } = await app.inject(`/rows?${query.toString().replaceAll('%3F', '?')}`);
  const [, address] = /^<\/rows\?([^>]*)>; rel="next"$/.exec(String(headers.link)) ?? [];
  return new URLSearchParams(address);
}

test('the next page keeps the query with a new cursor', async () => {
  const next = await nextOf(new URLSearchParams({ q: 'a?b&c=d', cursor: 'x', limit: '2' }));
  assert.deepEqual(Object.fromEntries(next), { q: 'a?b&c=d', limit: '2', cursor: 'after 2' });
});

test('the next page keeps any query', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }))),
      async (asked) => {
        const others = asked.filter(([name]) => name !== 'limit' && name !== 'cursor');
        const next = await nextOf(new URLSearchParams(others));
        assert.deepEqual(
          [...next],
          [...new URLSearchParams(others), ['limit', '2'], ['cursor', 'after 2']],
        );
      },
    ),
  );
});

test('text between backticks is code and escaped', () => {
  for (const [text, html] of [
    ['no code', 'no code'],
    ['see `errors`', 'see <code>errors</code>'],
    ['`a` and `<b>` & c', '<code>a</code> and <code>&#60;b&#62;</code> &#38; c'],
    ['one ` alone', 'one ` alone'],
    ['', ''],
  ] as const) {
    assert.equal(renderInlineCode(text).html, html);
  }
});
