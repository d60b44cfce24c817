// Builds the npm package of packages/inventory in its folder dist.

import { execFileSync } from 'node:child_process';
import { chmod, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const PACKAGE = join(ROOT, 'packages/inventory');
const DIST = join(PACKAGE, 'dist');

await rm(DIST, { recursive: true, force: true });
execFileSync(
  process.execPath,
  [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', join(PACKAGE, 'tsconfig.build.json')],
  { stdio: 'inherit' },
);
for (const file of ['endpoint.schema.json', 'inventory.config.schema.json']) {
  await cp(join(PACKAGE, file), join(DIST, file));
}
// The README of the repository describes parts that the package lacks.
await cp(join(PACKAGE, 'package-readme.md'), join(DIST, 'README.md'));
await cp(join(ROOT, 'LICENSE'), join(DIST, 'LICENSE'));
await cp(join(ROOT, 'docs/inventory/rules'), join(DIST, 'docs/inventory/rules'), {
  recursive: true,
});
await cp(join(ROOT, 'docs/inventory/output.md'), join(DIST, 'docs/inventory/output.md'));
const page = 'src/report/page';
await cp(join(PACKAGE, page), join(DIST, page), { recursive: true });
await chmod(join(DIST, 'src/bin.js'), 0o755);

const manifest = JSON.parse(await readFile(join(PACKAGE, 'package.json'), 'utf8'));
const { name, version, description, license, type, dependencies } = manifest;
const { engines } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
await mkdir(DIST, { recursive: true });
await writeFile(
  join(DIST, 'package.json'),
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
      // The types refer to Node's streams.
      peerDependencies: { '@types/node': '>=24' },
      peerDependenciesMeta: { '@types/node': { optional: true } },
    },
    null,
    2,
  )}\n`,
);
