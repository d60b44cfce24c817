import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryConflicts } from '../src/retry-conflicts.ts';

const failure = (code: string) => Object.assign(new Error(code), { code });

/** Work that fails with these, one after another, and then gives how often it was begun. */
function failing(...codes: string[]) {
  let begun = 0;
  const work = () => {
    begun += 1;
    const code = codes[begun - 1];
    return code === undefined ? Promise.resolve(begun) : Promise.reject(failure(code));
  };
  return { work, begun: () => begun };
}

test('what was ended for the sake of another is run again', async () => {
  assert.equal(await retryConflicts(failing('40P01').work), 2);
  assert.equal(await retryConflicts(failing('40001', '40P01').work), 3);
});

test('three times is enough, and other failures are final', async () => {
  const conflicts = failing('40P01', '40P01', '40P01');
  await assert.rejects(retryConflicts(conflicts.work), { code: '40P01' });
  assert.equal(conflicts.begun(), 3);
  const wrong = failing('23505');
  await assert.rejects(retryConflicts(wrong.work), { code: '23505' });
  assert.equal(wrong.begun(), 1);
});
