import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

/** The build that `npm ci` makes. */
const DIST = join(import.meta.dirname, '../dist');

test('Requests of the first page stay within the budget', async () => {
  type Chunk = { file: string; css?: string[]; imports?: string[] };
  const manifest = JSON.parse(await readFile(join(DIST, 'manifest.json'), 'utf8')) as Record<
    string,
    Chunk
  >;
  const names = new Set<string>();
  const add = (name: string) => {
    if (names.has(name)) return;
    names.add(name);
    manifest[name]?.imports?.forEach(add);
  };
  const measure = async (files: Iterable<string>) => {
    let size = 0;
    for (const file of files) {
      const path = join(DIST, file);
      size += (await readFile(`${path}.gz`).catch(() => readFile(path))).length;
    }
    return size;
  };
  for (const name of ['index.html', 'src/search/page.tsx', 'src/i18n/uk/index.ts']) add(name);
  const firstChunks = [...names]
    .map((name) => manifest[name])
    .filter((chunk) => chunk !== undefined);
  const scripts = await measure(firstChunks.map(({ file }) => file));
  const styles = await measure(new Set(firstChunks.flatMap(({ css = [] }) => css)));
  assert.ok(scripts <= 190_000, `${scripts} bytes of scripts`);
  assert.ok(styles <= 20_000, `${styles} bytes of styles`);
  const firstNames = new Set(names);
  for (const route of Object.keys(manifest).filter((name) => name.endsWith('/page.tsx'))) {
    names.clear();
    add(route);
    const ownFiles = [...names]
      .filter((name) => !firstNames.has(name))
      .map((name) => manifest[name]?.file ?? '');
    const size = await measure(ownFiles);
    assert.ok(size <= 60_000, `${route} has ${size} bytes`);
  }
});
