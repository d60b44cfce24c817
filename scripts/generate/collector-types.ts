import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The generator is the assistant's: it needs a TypeScript of its own. */
const resolve = createRequire(
  join(import.meta.dirname, '../../apps/assistant/package.json'),
).resolve;

/** The types of the collector's interface, for the assistant's client of it. */
export function collectorTypes(document: unknown): string {
  const command = join(dirname(resolve('openapi-typescript/package.json')), 'bin/cli.js');
  // What has a default need not be sent.
  const types = execFileSync(process.execPath, [command, '--default-non-nullable=false'], {
    input: JSON.stringify(document),
    encoding: 'utf8',
  });
  return `// Made by npm run generate from the collector's OpenAPI document.\n\n${types}`;
}
