import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { openFolder } from '@oselya/testing';
import manifest from '../package.json' with { type: 'json' };
import { VALID_RECORD } from './support.ts';

const ROOT = join(import.meta.dirname, '../../..');
const run = promisify(execFile);

const folder = await openFolder();

const readJson = async (path: string): Promise<unknown> => JSON.parse(await readFile(path, 'utf8'));
const runNpm = (...args: string[]) =>
  run('npm', [...args, '--no-audit', '--no-fund', '--prefer-offline'], { cwd: folder });

await run(process.execPath, [join(ROOT, 'scripts/build-inventory.ts')]);
await runNpm('pack', join(ROOT, 'packages/inventory/dist'));
const tarball = (await readdir(folder)).find((name) => name.endsWith('.tgz'));
await writeFile(join(folder, 'package.json'), '{"type": "module", "private": true}');
await runNpm('install', `./${tarball}`);
await writeFile(join(folder, 'net.json'), JSON.stringify([VALID_RECORD, 5]));

test('The package contains its pages and schemas, and neither the platform nor sources', async () => {
  assert.deepEqual(await readdir(join(folder, 'node_modules/@oselya')), ['inventory']);
  const files = await readdir(join(folder, 'node_modules/@oselya/inventory'), { recursive: true });
  const sourceFiles = files.filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'));
  assert.deepEqual(sourceFiles, []);
  for (const name of ['docs/inventory/output.md', 'docs/inventory/rules/README.md']) {
    assert.ok(files.includes(name), name);
  }
  for (const name of ['endpoint.schema.json', 'inventory.config.schema.json']) {
    const sourcePath = join(ROOT, 'packages/inventory', name);
    const packagePath = join(folder, 'node_modules/@oselya/inventory', name);
    assert.deepEqual(await readJson(packagePath), await readJson(sourcePath));
  }
});

test('The command validates, reports and prints its help and version', async () => {
  const command = join(folder, 'node_modules/.bin/oselya-inventory');
  const { code, stdout } = await run(command, ['validate', 'net.json'], { cwd: folder }).then(
    (result) => ({ ...result, code: 0 }),
    (error: { code: number; stdout: string }) => error,
  );
  assert.equal(code, 1);
  assert.match(stdout, /^net\.json:1:\d+: error: a record must be an object/);
  const help = await run(command, ['lint', '--help'], { cwd: folder });
  assert.match(help.stdout, /^Usage: oselya-inventory lint /);
  const version = await run(command, ['--version'], { cwd: folder });
  assert.equal(version.stdout, `${manifest.version}\n`);
  await writeFile(join(folder, 'valid.json'), JSON.stringify([VALID_RECORD]));
  const page = await run(command, ['report', 'valid.json'], { cwd: folder });
  assert.match(page.stdout, /^<!doctype html>/);
});

test('Each command has its dependencies', async () => {
  const command = join(folder, 'node_modules/.bin/oselya-inventory');
  const files = {
    'own.json': JSON.stringify([VALID_RECORD]),
    'inventory.config.json': '{"rules": {"missing-owner": "off"}}',
    'compose.yaml': 'services:\n  a:\n    ports: ["80:80"]\n',
    'nginx.conf': 'server { listen 80; }',
    Caddyfile: ':80 {\n}\n',
    'openapi.yaml': 'servers:\n  - url: https://a.example/\n',
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  for (const [args, pattern] of [
    ['lint --config inventory.config.json own.json', /^own\.json: /],
    ['diff own.json own.json', /1 unchanged/],
    ['export --target hosts own.json', /^/],
    ['export --target prometheus own.json', /^\[/],
    ['import --from compose compose.yaml', /"port": 80/],
    ['import --from nginx nginx.conf', /"port": 80/],
    ['import --from caddy Caddyfile', /"port": 80/],
    ['import --from openapi openapi.yaml', /"domain": "a\.example"/],
    // The record names no host or port.
    ['probe own.json', /1 not probed/],
    ['report --format csv own.json', /^id,name,/],
  ] as const) {
    const { stdout } = await run(command, args.split(' '), { cwd: folder });
    assert.match(stdout, pattern, args);
  }
});

test('A program compiles with the types of the package', async () => {
  await writeFile(
    join(folder, 'program.mts'),
    `import { type EndpointRecord, readRecords, validateInventory } from '@oselya/inventory';
import schema from '@oselya/inventory/endpoint.schema.json' with { type: 'json' };
for await (const finding of validateInventory({ path: 'net.json' })) {
  const line: number = finding.line;
  console.log(line, schema.$id);
}
for await (const { value } of readRecords('[]')) {
  const record: EndpointRecord = value;
  const exposure: 'public' | 'vpn' | 'local' | 'private' | 'unknown' = record.exposure;
  console.log(exposure);
}
`,
  );
  const options = '--strict --module nodenext --target esnext --noEmit --resolveJsonModule';
  const types = ['--types', 'node', '--typeRoots', `${ROOT}/node_modules/@types`, 'program.mts'];
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const args = [tsc, ...options.split(' '), ...types];
  await run(process.execPath, args, { cwd: folder }).catch((error: { stdout: string }) =>
    assert.fail(error.stdout),
  );
  const { stdout } = await run(process.execPath, ['program.mts'], { cwd: folder });
  assert.match(stdout, /^1 endpoint\.schema\.json/);
});
