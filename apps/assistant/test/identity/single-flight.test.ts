import assert from 'node:assert/strict';
import { test } from 'node:test';
import { singleFlight } from '../../src/identity/single-flight.ts';

/** Work that ends when the test says so, and how often it was begun. */
function held() {
  const begun: PromiseWithResolvers<string>[] = [];
  const work = () => {
    const one = Promise.withResolvers<string>();
    begun.push(one);
    return one.promise;
  };
  return { begun, work };
}

test('who asks while an answer is on its way shares it', async () => {
  const { begun, work } = held();
  const share = singleFlight<string>();
  const answers = [share('a', work), share('a', work), share('a', work)];
  assert.equal(begun.length, 1);
  begun[0]?.resolve('first');
  assert.deepEqual(await Promise.all(answers), ['first', 'first', 'first']);
});

test('who asks for something else does not', async () => {
  const { begun, work } = held();
  const share = singleFlight<string>();
  const answers = [share('a', work), share('b', work)];
  assert.equal(begun.length, 2);
  begun[1]?.resolve('of b');
  begun[0]?.resolve('of a');
  assert.deepEqual(await Promise.all(answers), ['of a', 'of b']);
});

test('an error is shared too', async () => {
  const { begun, work } = held();
  const share = singleFlight<string>();
  const answers = [share('a', work), share('a', work)];
  begun[0]?.reject(new Error('no answer'));
  for (const answer of answers) await assert.rejects(answer, /no answer/);
  assert.equal(begun.length, 1);
});

test('nothing is remembered, neither an answer nor an error', async () => {
  const { begun, work } = held();
  const share = singleFlight<string>();
  const first = share('a', work);
  begun[0]?.resolve('first');
  assert.equal(await first, 'first');
  const second = share('a', work);
  begun[1]?.reject(new Error('no answer'));
  await assert.rejects(second, /no answer/);
  const third = share('a', work);
  begun[2]?.resolve('third');
  assert.equal(await third, 'third');
});
