import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createJobOutages } from '../../src/pipeline/outages.ts';

const outage = () => ({ since: new Date() });

test('a job is a victim of outages up to the fifth that ended with an answer to another', () => {
  const outages = createJobOutages(5);
  for (let nth = 1; nth < 5; nth += 1) {
    const one = outage();
    for (let probe = 0; probe < 100; probe += 1) assert.ok(outages.isVictim(7, one));
  }
  assert.ok(outages.isVictim(8, outage()), 'each job is counted for itself');
  assert.equal(outages.isVictim(7, outage()), false);
});

test('a job that has ended begins anew', () => {
  const outages = createJobOutages(5);
  assert.equal(outages.hasMet(7), false);
  for (let nth = 1; nth < 5; nth += 1) outages.isVictim(7, outage());
  assert.ok(outages.hasMet(7));
  outages.forget(7);
  assert.equal(outages.hasMet(7), false);
  assert.ok(outages.isVictim(7, outage()));
});

test('10,000 jobs are remembered, those that met an outage last', () => {
  const outages = createJobOutages(5);
  const one = outage();
  for (let rawId = 0; rawId < 10_000; rawId += 1) outages.isVictim(rawId, one);
  outages.isVictim(0, one);
  outages.isVictim(10_000, one);
  assert.deepEqual(
    [0, 1, 2, 10_000].map((rawId) => outages.hasMet(rawId)),
    [true, false, true, true],
  );
});
