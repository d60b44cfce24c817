import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImageError } from '../../src/images/image-error.ts';
import { createPatience } from '../../src/images/patience.ts';

const timeout = new ImageError('It took too long', { retryable: true, isTimeout: true });

test('a host that was silent twice is not asked again; others are, and one that only fails', () => {
  const patience = createPatience(60_000);
  patience.note('https://silent.example/1.jpg', timeout);
  patience.check('https://silent.example/2.jpg');
  patience.note('https://silent.example/2.jpg', timeout);
  assert.throws(() => patience.check('https://silent.example/3.jpg'), {
    name: 'ImageError',
    retryable: true,
  });
  patience.check('https://silent.example:8443/3.jpg');
  const failing = 'https://failing.example/';
  for (let n = 0; n < 9; n += 1) {
    patience.note(failing, new ImageError('The address answered with status 503'));
  }
  patience.check(failing);
  patience.note('nonsense', timeout);
  patience.check('nonsense');
});

test('once the time of a listing is over no host is asked', () => {
  assert.throws(() => createPatience(0).check('https://quick.example/'), { retryable: true });
});
