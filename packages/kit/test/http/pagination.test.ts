import assert from 'node:assert/strict';
import { test } from 'node:test';
import Fastify from 'fastify';
import fc from 'fast-check';
import { toPage } from '../../src/http/pagination.ts';

const app = Fastify({ logger: false });
app.get<{ Querystring: { limit: number } }>('/rows', (request, reply) =>
  toPage([1, 2, 3], { limit: 2, cursorOf: (row) => `after ${row}`, request, reply }),
);

/** The query of the next page. */
async function nextOf(query: URLSearchParams): Promise<URLSearchParams> {
  const { headers } = await app.inject(`/rows?${query.toString().replaceAll('%3F', '?')}`);
  const [, address] = /^<\/rows\?([^>]*)>; rel="next"$/.exec(String(headers.link)) ?? [];
  return new URLSearchParams(address);
}

test('the next page has what was asked of this one, and its own place', async () => {
  const next = await nextOf(new URLSearchParams({ q: 'a?b&c=d', cursor: 'x', limit: '2' }));
  assert.deepEqual(Object.fromEntries(next), { q: 'a?b&c=d', limit: '2', cursor: 'after 2' });
});

test('whatever a query says, the next page says it too', async () => {
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
