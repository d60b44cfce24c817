// Builds the npm package of packages/inventory in its folder dist.

import { execFileSync } from 'node:child_process';
import { chmod, cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const ROOT_FOLDER = join(import.meta.dirname, '..');
const PACKAGE_PATH = 'packages/inventory';
const PACKAGE_FOLDER = join(ROOT_FOLDER, PACKAGE_PATH);
const DIST_FOLDER = join(PACKAGE_FOLDER, 'dist');

await rm(DIST_FOLDER, { recursive: true, force: true });
execFileSync(
  process.execPath,
  [
    join(ROOT_FOLDER, 'node_modules/typescript/bin/tsc'),
    '-p',
    join(PACKAGE_FOLDER, 'tsconfig.build.json'),
  ],
  { stdio: 'inherit' },
);
const PAGE_PATH = 'src/report/page';
for (const [source, target] of [
  [`${PACKAGE_PATH}/endpoint.schema.json`, 'endpoint.schema.json'],
  [`${PACKAGE_PATH}/inventory.config.schema.json`, 'inventory.config.schema.json'],
  // The workspace's own README describes parts that the package lacks, so the package has a separate one.
  [`${PACKAGE_PATH}/package-readme.md`, 'README.md'],
  ['LICENSE', 'LICENSE'],
  ['docs/inventory/rules', 'docs/inventory/rules'],
  ['docs/inventory/output.md', 'docs/inventory/output.md'],
  [`${PACKAGE_PATH}/${PAGE_PATH}`, PAGE_PATH],
] as const) {
  await cp(join(ROOT_FOLDER, source), join(DIST_FOLDER, target), { recursive: true });
}
await chmod(join(DIST_FOLDER, 'src/bin.js'), 0o755);

const manifest = JSON.parse(await readFile(join(PACKAGE_FOLDER, 'package.json'), 'utf8'));
const { name, version, description, license, type, dependencies } = manifest;
const { engines } = JSON.parse(await readFile(join(ROOT_FOLDER, 'package.json'), 'utf8'));
await writeFile(
  join(DIST_FOLDER, 'package.json'),
  `${JSON.stringify(
    {
      name,
      version,
      description,
      license,
      type,
      engines,
      bin: { 'oselya-inventory': './src/bin.js' },
      exports: {
        '.': { types: './src/index.d.ts', default: './src/index.js' },
        './endpoint.schema.json': './endpoint.schema.json',
        './inventory.config.schema.json': './inventory.config.schema.json',
      },
      dependencies,
      // The types refer to Node's streams, so users of TypeScript need Node's types.
      peerDependencies: { '@types/node': '>=24' },
      peerDependenciesMeta: { '@types/node': { optional: true } },
    },
    null,
    2,
  )}\n`,
);
