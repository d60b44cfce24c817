// Builds the npm package of packages/inventory in its folder dist.

import { execFileSync } from 'node:child_process';
import { chmod, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const ROOT_FOLDER = join(import.meta.dirname, '..');
const PACKAGE_FOLDER = join(ROOT_FOLDER, 'packages/inventory');
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
for (const file of ['endpoint.schema.json', 'inventory.config.schema.json']) {
  await cp(join(PACKAGE_FOLDER, file), join(DIST_FOLDER, file));
}
// The README of the repository describes parts that the package lacks.
await cp(join(PACKAGE_FOLDER, 'package-readme.md'), join(DIST_FOLDER, 'README.md'));
await cp(join(ROOT_FOLDER, 'LICENSE'), join(DIST_FOLDER, 'LICENSE'));
await cp(join(ROOT_FOLDER, 'docs/inventory/rules'), join(DIST_FOLDER, 'docs/inventory/rules'), {
  recursive: true,
});
await cp(
  join(ROOT_FOLDER, 'docs/inventory/output.md'),
  join(DIST_FOLDER, 'docs/inventory/output.md'),
);
const page = 'src/report/page';
await cp(join(PACKAGE_FOLDER, page), join(DIST_FOLDER, page), { recursive: true });
await chmod(join(DIST_FOLDER, 'src/bin.js'), 0o755);

const manifest = JSON.parse(await readFile(join(PACKAGE_FOLDER, 'package.json'), 'utf8'));
const { name, version, description, license, type, dependencies } = manifest;
const { engines } = JSON.parse(await readFile(join(ROOT_FOLDER, 'package.json'), 'utf8'));
await mkdir(DIST_FOLDER, { recursive: true });
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
      // The types refer to Node's streams.
      peerDependencies: { '@types/node': '>=24' },
      peerDependenciesMeta: { '@types/node': { optional: true } },
    },
    null,
    2,
  )}\n`,
);
