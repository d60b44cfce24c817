import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@oselya/kit';
import { announceOpenAccess } from '../../src/access/open-access.ts';
import { readConfig } from '../../src/config.ts';

for (const [env, level] of [
  [{}, 'info'],
  [{ COLLECTOR_HOST: '::1' }, 'info'],
  [{ COLLECTOR_AUTH: 'off' }, 'info'],
  [{ COLLECTOR_AUTH: 'off', COLLECTOR_HOST: '0.0.0.0' }, 'warn'],
  [{ COLLECTOR_AUTH: 'required' }, undefined],
  [{ COLLECTOR_AUTH: 'required', COLLECTOR_HOST: '0.0.0.0' }, undefined],
] as const) {
  test(`with ${JSON.stringify(env)} open access is told at level ${level}`, () => {
    const lines: string[] = [];
    const log = createLogger({
      level: 'info',
      service: 'test',
      destination: { write: (line) => lines.push(line) },
    });
    announceOpenAccess(log, readConfig(env));
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).level),
      level === undefined ? [] : [level],
    );
  });
}
