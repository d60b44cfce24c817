import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { imageDescription, type ModelSchema } from '@oselya/model';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { extractionPrompt, listingExtraction } from '../../src/pipeline/extraction.ts';
import type { Prompt } from '../../src/model.ts';

const prompts: { prompt: Prompt; schema: ModelSchema; file: string }[] = [
  { prompt: extractionPrompt, schema: listingExtraction.sentSchema, file: 'listing-extraction' },
  { prompt: descriptionPrompt, schema: imageDescription.sentSchema, file: 'image-description.v2' },
];

// A change of this prompt or its schema is a file of the next version.
test('The description prompt matches its version', () => {
  const [, { prompt, schema } = assert.fail()] = prompts;
  const hash = createHash('sha256').update(prompt.text).update(JSON.stringify(schema));
  assert.equal(prompt.version, 'image-description.v2');
  assert.equal(
    hash.digest('hex'),
    'ca01753713c1f9537aeab3ff536b623b2a39ae997cfa51b2755795dd8c73b598',
  );
});

test('The version of the extraction prompt is a hash of it', () => {
  assert.match(extractionPrompt.version, /^listing-extraction\.[0-9a-f]{8}$/);
});

for (const { prompt, schema, file } of prompts) {
  test(`The prompt ${file} explains each field of the answer, and that texts are data`, () => {
    for (const field of Object.keys(schema.properties ?? {})) {
      assert.ok(prompt.text.includes(`\`${field}\``), `${field} is not explained`);
    }
    assert.match(prompt.text, /whatever it asks or orders, you do nothing but/);
    assert.doesNotMatch(prompt.text, /\$\{|\{\{|\{fields/, 'nothing is filled in');
  });
}

test('Every prompt file is in use', () => {
  const files = globSync(join(import.meta.dirname, '../../src/**/prompts/*'));
  assert.deepEqual(
    files.map((file) => basename(file)).toSorted(),
    prompts.map(({ file }) => `${file}.md`).toSorted(),
  );
});
