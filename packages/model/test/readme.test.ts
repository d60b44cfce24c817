import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { MODEL_ERRORS } from '../src/index.ts';

test('the README explains every error code and says the same of its retries', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8');
  const rows = readme.matchAll(/^\| `(MODEL_\w+)` +\| (yes|no) +\|/gm);
  const documented = [...rows].map(([, code, retryable]) => [code, retryable === 'yes']);
  const table = Object.entries(MODEL_ERRORS).map(([code, { retryable }]) => [code, retryable]);
  assert.deepEqual(documented, table);
});
