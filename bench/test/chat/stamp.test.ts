import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readTokenAges, stampToken } from '../../src/chat/stamp.ts';

test('each token of a joined text has a separate age', async () => {
  const first = stampToken();
  await sleep(20);
  const ages = readTokenAges(first + stampToken());
  assert.equal(ages.length, 2);
  const [older = 0, newer = 0] = ages;
  // A timer may end a fraction of a millisecond early, so the test allows one millisecond.
  assert.ok(older >= newer + 19, `${older} ms and ${newer} ms`);
  assert.ok(newer >= 0);
});
