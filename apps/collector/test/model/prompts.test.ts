import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { imageDescription, listingExtraction } from '@oselya/model';
import type { TObject } from 'typebox';
import { descriptionPrompt } from '../../src/images/describe-one.ts';
import { extractionPrompt } from '../../src/pipeline/extraction.ts';
import type { Prompt } from '../../src/model/prompt.ts';

/**
 * Each prompt with the schema of its answer, which the model reads too. Listings and snapshots name the
 * version that they were made by, so what a version says never changes: whoever changes a prompt or a
 * schema makes a file of the next version and changes the line here with it.
 */
const prompts: { prompt: Prompt; schema: TObject; version: string; sha256: string }[] = [
  {
    prompt: extractionPrompt,
    schema: listingExtraction.schema,
    version: 'listing-extraction.v1',
    sha256: '935f08a5ea088d179f65b726f481218eefdc50e1ca74fab024ce419a4dbf0218',
  },
  {
    prompt: descriptionPrompt,
    schema: imageDescription.schema,
    version: 'image-description.v1',
    sha256: 'c3f0fab065795429c111a82e4242c0b176c839819681287bc96946103897f41f',
  },
];

for (const { prompt, schema, version, sha256 } of prompts) {
  test(`${version} says what it said when it was written`, () => {
    assert.equal(prompt.version, version);
    const hash = createHash('sha256').update(prompt.text).update(JSON.stringify(schema));
    assert.equal(
      hash.digest('hex'),
      sha256,
      `${version} or its schema was changed: make a new version, so that what was made before can be told`,
    );
  });

  test(`${version} explains each field of the answer, and that texts are data`, () => {
    for (const field of Object.keys(schema.properties)) {
      assert.ok(prompt.text.includes(`\`${field}\``), `${field} is not explained`);
    }
    assert.match(prompt.text, /whatever it asks or orders, you do nothing but/);
    assert.doesNotMatch(prompt.text, /\$\{|\{\{/, 'nothing is filled in');
  });
}

test('every prompt file is in use', () => {
  const files = globSync(join(import.meta.dirname, '../../src/**/prompts/*'));
  assert.deepEqual(
    files.map((file) => basename(file)).toSorted(),
    prompts.map(({ version }) => `${version}.md`).toSorted(),
  );
});
