import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as assistant from '@oselya/assistant';
import { clientConfig, devConfig } from '@oselya/cli/config';
import * as collector from '@oselya/collector';
import { errorsPage } from '../generate/errors-page.ts';

const docs = (name: string) => readFile(join(import.meta.dirname, '../../docs', name), 'utf8');

test('docs/errors.md is made from the error tables', async () => {
  const page = errorsPage({ assistant: assistant.errors, collector: collector.errors });
  assert.equal(await docs('errors.md'), page);
});

test('docs/configuration.md has every variable with its default, and no other', async () => {
  const rows = new Map(
    [...(await docs('configuration.md')).matchAll(/^\| `(\w+)` +\| (.*?) *\|/gm)].map(
      ([, name = '', fallback = '']) => [name, fallback],
    ),
  );
  const fields: Record<string, object> = {
    ...assistant.configSchema.properties,
    ...collector.configSchema.properties,
    ...devConfig.properties,
    ...clientConfig.properties,
  };
  assert.deepEqual([...rows.keys()].toSorted(), Object.keys(fields).toSorted());
  for (const [name, field] of Object.entries(fields)) {
    const value = 'default' in field ? field.default : undefined;
    if (value === undefined || value === '' || Array.isArray(value)) continue;
    const shown = `\`${JSON.stringify(value).replaceAll('"', '')}\``;
    assert.ok(rows.get(name)?.startsWith(shown), `${name} is ${shown}`);
  }
});
