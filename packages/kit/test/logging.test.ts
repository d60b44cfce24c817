import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '../src/index.ts';

test('an error of the database is logged without the row that it is about', () => {
  const lines: string[] = [];
  const log = createLogger({
    level: 'info',
    service: 'test',
    destination: { write: (line) => lines.push(line) },
  });
  const error = Object.assign(new Error('duplicate key'), {
    code: '23505',
    detail: 'Key (id)=(a-session-id) already exists.',
    where: 'JSON data, line 1: {"text": "a private text"}',
  });
  log.error({ err: error }, 'failed');
  assert.match(lines.join(''), /duplicate key.*23505/);
  assert.doesNotMatch(lines.join(''), /a-session-id|a private text/);
});
