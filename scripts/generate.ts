// Writes the generated files. With --check it writes nothing, and fails if a file is outdated.

import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import * as assistant from '@oselya/assistant';
import * as collector from '@oselya/collector';
import { connect } from '@oselya/db';
import { CONFIG_SCHEMA } from '@oselya/inventory';
import { generateCollectorTypes } from './generate/collector-types.ts';
import { formatErrorsPage } from './generate/errors-page.ts';
import { dumpSchema } from './generate/schema-dump.ts';

const ROOT = join(import.meta.dirname, '..');
const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

const database = await connect<never>({});
await assistant.migrateDatabase({}, database);
await collector.migrateDatabase({}, database);

const collectorDocument = await collector.openapi();
const files = new Map<string, string>([
  ['docs/openapi/assistant.json', formatJson(await assistant.openapi())],
  ['docs/asyncapi/assistant.json', formatJson(await assistant.asyncapi())],
  ['docs/openapi/collector.json', formatJson(collectorDocument)],
  ['apps/assistant/src/collector/generated/openapi.ts', generateCollectorTypes(collectorDocument)],
  ['docs/schema.sql', await dumpSchema(database.pool)],
  ['packages/inventory/inventory.config.schema.json', formatJson(CONFIG_SCHEMA)],
  [
    'docs/errors.md',
    formatErrorsPage({ assistant: assistant.errors, collector: collector.errors }),
  ],
]);
await database.close();

const outdatedFiles: string[] = [];
for (const [name, text] of files) {
  const path = join(ROOT, name);
  const currentText = await readFile(path, 'utf8').catch(() => undefined);
  if (currentText === text) continue;
  outdatedFiles.push(relative(ROOT, path));
  if (values.check) continue;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}
if (outdatedFiles.length > 0) {
  const names = outdatedFiles.join(', ');
  process.stdout.write(
    values.check ? `Outdated files: ${names}. Run npm run generate.\n` : `Wrote ${names}\n`,
  );
}
process.exitCode = values.check && outdatedFiles.length > 0 ? 1 : 0;

function formatJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
