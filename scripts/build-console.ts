/**
 * Builds the console into `apps/console/dist`, with a gzip and a Brotli file beside each file.
 *
 *   node scripts/build-console.ts [--if-changed]
 */
import { createHash } from 'node:crypto';
import { glob, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build } from 'vite';

const ROOT = join(import.meta.dirname, '..');
const FOLDER = join(ROOT, 'apps/console');
const HASH_FILE = join(FOLDER, 'dist/inputs.sha256');
const INPUTS = ['src/**/*.*', 'index.html', 'package.json', 'vite.config.ts'];
/** Files smaller than a network packet gain nothing. */
const MIN_COMPRESSED_BYTES = 1400;

const hash = await hashInputs();
const builtHash = await readFile(HASH_FILE, 'utf8').catch(() => undefined);
if (!process.argv.includes('--if-changed') || builtHash !== hash) {
  await build({ root: FOLDER, logLevel: 'warn' });
  for await (const path of glob('dist/assets/*', { cwd: FOLDER }))
    await compressFile(join(FOLDER, path));
  await writeFile(HASH_FILE, hash);
}

/** Returns a hash of the names and contents of all files that the build reads. */
async function hashInputs(): Promise<string> {
  const paths = await Array.fromAsync(glob(INPUTS, { cwd: FOLDER }));
  const files = [...paths.map((path) => join(FOLDER, path)), join(ROOT, 'package-lock.json')];
  const sum = createHash('sha256');
  for (const path of files.toSorted()) sum.update(path).update(await readFile(path));
  return sum.digest('hex');
}

async function compressFile(path: string): Promise<void> {
  const content = await readFile(path);
  if (content.length < MIN_COMPRESSED_BYTES) return;
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
  await writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }));
  await writeFile(`${path}.br`, await promisify(brotliCompress)(content, { params }));
}
