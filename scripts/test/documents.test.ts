import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as assistant from '@oselya/assistant';
import { clientConfig, devConfig } from '@oselya/cli/config';
import * as collector from '@oselya/collector';
import { formatErrorsPage } from '../generate/errors-page.ts';

const readDoc = (name: string) => readFile(join(import.meta.dirname, '../../docs', name), 'utf8');

test('docs/errors.md matches the error tables', async () => {
  const page = formatErrorsPage({ assistant: assistant.errors, collector: collector.errors });
  assert.equal(await readDoc('errors.md'), page);
});

test('docs/configuration.md lists every variable with its default', async () => {
  const rows = new Map(
    [...(await readDoc('configuration.md')).matchAll(/^\| `(\w+)` +\| (.*?) *\|/gm)].map(
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
    const expectedText = `\`${JSON.stringify(value).replaceAll('"', '')}\``;
    assert.ok(rows.get(name)?.startsWith(expectedText), `${name} is ${expectedText}`);
  }
});

test('docs/reference/departures.md names each status that the contracts lack', async () => {
  // The statuses that Contract 2 permits (Common HTTP rules).
  const contractStatuses = new Set([400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503]);
  const definitions = [assistant.errors, collector.errors].flatMap((errors) =>
    Object.values(errors),
  );
  const row = /^\| Contract 2: the list of statuses .*$/m.exec(
    await readDoc('reference/departures.md'),
  )?.[0];
  assert.deepEqual(
    row?.match(/\b[45]\d\d\b/g)?.map(Number),
    [...new Set(definitions.map(({ status }) => status))]
      .filter((status) => !contractStatuses.has(status))
      .toSorted((one, other) => one - other),
  );
});

test('docs/adr/README.md names each decision exactly once', async () => {
  const index = await readDoc('adr/README.md');
  const listedFiles = [...index.matchAll(/\[(\d{4})\]\((\1-[a-z-]+\.md)\)/g)].map(
    ([, , file]) => file,
  );
  const files = (await readdir(join(import.meta.dirname, '../../docs/adr'))).toSorted();
  assert.deepEqual(
    listedFiles,
    files.filter((file) => file !== 'README.md'),
  );
  for (const file of listedFiles) {
    const number = file?.slice(0, 4) ?? '';
    assert.ok(
      (await readDoc(`adr/${file}`)).startsWith(`# ${number} `),
      `${file} begins with its number`,
    );
  }
});
