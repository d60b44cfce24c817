import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { runInventory } from '@oselya/inventory';
import { parse } from 'yaml';
import { Collector } from './support/transcript.ts';

const ROOT = join(import.meta.dirname, '../../..');
const page = readFileSync(join(ROOT, 'docs/inventory/README.md'), 'utf8');

/** The blocks of code in one language on the page. */
function blocks(language: string): string[] {
  const fenced = new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm');
  return page
    .matchAll(fenced)
    .map(([, text = '']) => text)
    .toArray();
}

const COMMAND = /npx --no oselya-inventory ([^>\n]*?) *(?:>.*)?$/gm;
// What `git show` writes there is another state of the same file.
const toArguments = (written: string) =>
  written.replace('before.json', 'inventory/endpoints.json').split(' ');

test('the settings of the editor name schemas that are there', () => {
  const [settings = ''] = blocks('json');
  const schemas: { fileMatch: string[]; url: string }[] = JSON.parse(settings)['json.schemas'];
  assert.equal(schemas.length, 2);
  for (const { url } of schemas) assert.ok(existsSync(join(ROOT, url)), url);
});

test('the hook takes inventories, and the steps are what a workflow has', () => {
  const [hooks, steps, upload] = blocks('yaml').map((text) => parse(text));
  const [hook] = hooks.repos[0].hooks;
  const files = new RegExp(hook.files);
  for (const name of ['inventory/endpoints.json', 'inventory/a/b.jsonl']) assert.match(name, files);
  assert.doesNotMatch('package.json', files);
  for (const step of [...steps, ...upload.steps]) assert.ok('run' in step !== 'uses' in step);
});

test('the commands on the page run, and end well with the own inventory', async () => {
  const commands = blocks('yaml').flatMap((text) => {
    return text
      .matchAll(COMMAND)
      .map(([, written = '']) => toArguments(written))
      .toArray();
  });
  assert.deepEqual(
    commands.map(([name]) => name),
    ['lint', 'lint', 'diff', 'lint'],
  );
  // Nothing that fetches a package of the same name.
  assert.equal(page.match(/npx oselya-inventory/), null);
  const home = process.cwd();
  process.chdir(ROOT);
  try {
    for (const argv of commands) {
      // The hook is given its files behind the command.
      const files = argv.some((word) => word.endsWith('.json')) ? [] : ['inventory/endpoints.json'];
      // Reviews are judged as on the day after the last one.
      if (argv[0] === 'lint') argv.push('--today', '2026-11-22');
      const [stdout, stderr] = [new Collector(), new Collector()];
      const io = { stdin: Readable.from([]), stdout, stderr, env: {} };
      assert.equal(await runInventory([...argv, ...files], io), 0, argv.join(' ') + stderr.text);
    }
  } finally {
    process.chdir(home);
  }
});
