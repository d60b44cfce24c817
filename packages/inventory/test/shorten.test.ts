import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shorten } from '../src/shorten.ts';

test('of a password that goes on beyond what is looked at, nothing is shown', () => {
  assert.equal(shorten(`https://user:${'x'.repeat(9_100)}@a.example/`), 'https://***…');
});

test('a long text is told to go on, and an id is shown as it is', () => {
  assert.equal(shorten('a'.repeat(61)), `${'a'.repeat(60)}…`);
  assert.equal(shorten('a'.repeat(60)), 'a'.repeat(60));
  assert.equal(shorten('ssh:git@a:22'), '***@a:22');
  assert.equal(shorten('ssh:git@a:22', { isId: true }), 'ssh:git@a:22');
});
