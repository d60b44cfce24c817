import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createNotices } from '../../src/control/notices.ts';

const notice = (message: string) => ({ message, deliveries: [] });

describe('notices', () => {
  test('are given once, each under its own id', () => {
    const notices = createNotices();
    const [first, second] = [notices.keep(notice('first')), notices.keep(notice('second'))];
    assert.equal(notices.take(second)?.message, 'second');
    assert.equal(notices.take(second), undefined);
    assert.equal(notices.take(first)?.message, 'first');
    assert.equal(notices.take('never kept'), undefined);
  });

  test('that nobody asks for make room for later ones', () => {
    const notices = createNotices();
    const ids = Array.from({ length: 21 }, (_, index) => notices.keep(notice(String(index))));
    assert.equal(notices.take(ids[0] ?? ''), undefined);
    assert.equal(notices.take(ids[1] ?? '')?.message, '1');
    assert.equal(notices.take(ids[20] ?? '')?.message, '20');
  });
});
