import { access } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { runCommand } from './engine.ts';

/** Packages of the peers, pinned. They are large, so they are installed when a run needs them, and kept. */
const PACKAGES: Record<string, string> = {
  '@lancedb/lancedb': '0.31.0',
  [`@lancedb/lancedb-${process.platform}-${process.arch}-gnu`]: '0.31.0',
  'apache-arrow': '18.1.0',
  mysql2: '3.14.1',
};

const FOLDER = new URL('../../../node_modules/.cache/oselya-bench', import.meta.url).pathname;

/**
 * Returns a module of a package, after an installation of all packages of the peers if they are missing.
 * @throws BenchError if they cannot be installed.
 */
export async function loadPackage<Module>(name: string, path = ''): Promise<Module> {
  const folder = join(FOLDER, 'peers');
  const isInstalled = await access(join(folder, 'node_modules', name)).then(
    () => true,
    () => false,
  );
  // Optional dependencies of LanceDB are hundreds of megabytes, and only its own binary is needed.
  const flags = ['--omit=optional', '--no-save', '--ignore-scripts', '--prefix', folder];
  const packages = Object.entries(PACKAGES).map(([entry, version]) => `${entry}@${version}`);
  if (!isInstalled) await runCommand('npm', ['install', ...flags, ...packages]);
  // The caller knows the module.
  return createRequire(join(folder, 'index.js'))(`${name}${path}`) as Module;
}

/** Returns the pinned version of a package that can be installed; undefined otherwise. */
export async function findPackageVersion(name: string): Promise<string | undefined> {
  return loadPackage(name).then(
    () => PACKAGES[name],
    () => undefined,
  );
}
