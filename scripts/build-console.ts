/**
 * Builds the console into `apps/console/dist`, with a gzip and a Brotli file beside each file.
 *
 *   node scripts/build-console.ts [--if-changed]
 *
 * With `--if-changed` it does nothing if the last build had the same inputs, or if the tools for building are not
 * installed.
 */
import { createHash } from 'node:crypto';
import { glob, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

const ROOT = join(import.meta.dirname, '..');
const FOLDER = join(ROOT, 'apps/console');
const OUTPUT_FOLDER = join(FOLDER, 'dist');
const INPUTS = ['src/**/*.*', 'index.html', 'package.json', 'vite.config.ts'];
/** Files smaller than a network packet gain nothing. */
const MIN_COMPRESSED_BYTES = 1400;
const COMPRESSED_FILES = 'assets/*.{css,js}';

const isOptional = process.argv.includes('--if-changed');
const hash = await hashInputs();
const builtHash = await readFile(join(OUTPUT_FOLDER, 'inputs.sha256'), 'utf8').catch(() => '');
if (!isOptional || (builtHash !== hash && hasTools())) await buildConsole();

/** Returns a hash of the names and contents of all files that the build reads. */
async function hashInputs(): Promise<string> {
  const paths = await Array.fromAsync(glob(INPUTS, { cwd: FOLDER }));
  const files = [...paths.map((path) => join(FOLDER, path)), join(ROOT, 'package-lock.json')];
  const contents = await Promise.all(files.toSorted().map((path) => readFile(path)));
  const sum = createHash('sha256').update(JSON.stringify(paths.toSorted()));
  for (const content of contents) sum.update(content);
  return sum.digest('hex');
}

/** An installation without development dependencies has no tools. */
function hasTools(): boolean {
  try {
    import.meta.resolve('vite');
    return true;
  } catch {
    return false;
  }
}

/** Builds beside the present build, which remains if this one fails. */
async function buildConsole(): Promise<void> {
  // The tools take most of a second to load.
  const { build } = await import('vite');
  const folder = `${OUTPUT_FOLDER}.${process.pid}`;
  try {
    await build({ root: FOLDER, logLevel: 'warn', build: { outDir: folder } });
    const paths = await Array.fromAsync(glob(COMPRESSED_FILES, { cwd: folder }));
    await Promise.all(paths.map((path) => compressFile(join(folder, path))));
    await writeFile(join(folder, 'inputs.sha256'), hash);
    await rm(OUTPUT_FOLDER, { recursive: true, force: true });
    await rename(folder, OUTPUT_FOLDER);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function compressFile(path: string): Promise<void> {
  const content = await readFile(path);
  if (content.length < MIN_COMPRESSED_BYTES) return;
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
  const [gzipped, brotli] = await Promise.all([
    promisify(gzip)(content, { level: 9 }),
    promisify(brotliCompress)(content, { params }),
  ]);
  await Promise.all([writeFile(`${path}.gz`, gzipped), writeFile(`${path}.br`, brotli)]);
}
