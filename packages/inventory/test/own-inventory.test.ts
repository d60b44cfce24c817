import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isInventory } from '@oselya/inventory';
import { validate } from './support/findings.ts';

const root = new URL('../../../', import.meta.url);
const path = fileURLToPath(new URL('inventory/endpoints.json', root));

test('the inventory of this repository is valid', async () => {
  const { findings, summary } = await validate({ path });
  assert.deepEqual(findings, []);
  assert.ok(summary.isComplete);
});

test('its records point at pages and sources that exist, and agree with themselves', () => {
  const records: unknown = JSON.parse(readFileSync(path, 'utf8'));
  assert.ok(isInventory(records));
  assert.equal(new Set(records.map(({ id }) => id)).size, records.length);
  for (const { docs, source_of_truth, url = '', host, port, exposure } of records) {
    const [page = '', anchor] = docs.split('#');
    const text = readFileSync(new URL(page, root), 'utf8');
    if (anchor !== undefined) assert.ok(anchorsOf(text).includes(anchor), docs);
    assert.ok(existsSync(new URL(source_of_truth ?? '', root)), source_of_truth);
    assert.ok(url.includes(`//${host}:${port}`), url);
    assert.equal(exposure, 'local');
  }
});

/** The anchors that a Markdown viewer gives to the headings of a page. */
function anchorsOf(page: string): string[] {
  return Array.from(page.matchAll(/^#+ (.+)$/gm), ([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(' ', '-')
      .replace(/[^\w-]/g, ''),
  );
}
