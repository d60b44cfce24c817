import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createSender } from '../../src/ingest/sender.ts';

type Sent = { listing: string; nth: number };

test('at most so many are on their way, and those of one listing one after another', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 }),
      fc.integer({ min: 1, max: 5 }),
      async (scheduler, listings, parallel) => {
        const begun: Sent[] = [];
        const done: Sent[] = [];
        const sender = createSender<Sent>({
          parallel,
          listingOf: ({ listing }) => listing,
          async deliver(record) {
            begun.push(record);
            const open = begun.filter((one) => !done.includes(one));
            assert.ok(open.length <= parallel);
            assert.equal(open.filter(({ listing }) => listing === record.listing).length, 1);
            await scheduler.schedule(Promise.resolve());
            done.push(record);
          },
          onFailure: assert.fail,
        });
        const sending = (async () => {
          for (const [nth, listing] of listings.entries()) await sender.send({ listing, nth });
          await sender.end();
        })();
        await scheduler.waitFor(sending);
        assert.deepEqual(
          begun.map(({ nth }) => nth),
          listings.map((_, nth) => nth),
        );
        assert.equal(done.length, listings.length);
      },
    ),
    { numRuns: 100 },
  );
});

test('what makes one stop the run is told at once, and thrown at the next, and at the end', async () => {
  let told = 0;
  const sender = createSender<number>({
    parallel: 3,
    listingOf: String,
    deliver: async (nth) => {
      if (nth === 1) throw new Error('no key');
      await Promise.resolve();
    },
    onFailure: () => (told += 1),
  });
  await sender.send(0);
  await sender.send(1);
  await assert.rejects(async () => {
    for (let nth = 2; nth < 10; nth += 1) await sender.send(nth);
  }, /no key/);
  await assert.rejects(sender.end(), /no key/);
  assert.equal(told, 1);
});
