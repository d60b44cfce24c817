import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { imageDescription, listingExtraction, type ModelSchema } from '@oselya/model';
import { descriptionPrompt } from '../../src/images/describe-one.ts';
import { extractionPrompt } from '../../src/pipeline/extraction.ts';
import type { Prompt } from '../../src/model/prompt.ts';

/**
 * Each prompt with the schema of its answer, which the model reads too. Listings and snapshots name the
 * version that they were made by, so what a version says never changes: whoever changes a prompt or a
 * schema makes a file of the next version and changes the line here with it.
 */
const prompts: { prompt: Prompt; schema: ModelSchema; version: string; sha256: string }[] = [
  {
    prompt: extractionPrompt,
    schema: listingExtraction.sentSchema,
    version: 'listing-extraction.v2',
    sha256: '835754ac4159cd9ea9763562b4cc1ea5c858ef44c9ce8e57db983f1010232d16',
  },
  {
    prompt: descriptionPrompt,
    schema: imageDescription.sentSchema,
    version: 'image-description.v2',
    sha256: 'ca01753713c1f9537aeab3ff536b623b2a39ae997cfa51b2755795dd8c73b598',
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
    for (const field of Object.keys(schema.properties ?? {})) {
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
