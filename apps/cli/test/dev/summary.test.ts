import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { summary, type SummaryFacts } from '../../src/dev/summary.ts';

const facts: SummaryFacts = {
  assistantUrl: 'http://127.0.0.1:8000',
  collectorUrl: 'http://127.0.0.1:8001',
  idpUrl: 'http://127.0.0.1:8002',
  dataDir: resolve('var'),
  isEmbedded: true,
  accounts: [],
  seconds: 1,
  samples: 0,
  keysRequired: true,
  ignored: [],
};
const text = (more: Partial<SummaryFacts>) => summary({ ...facts, ...more });

test('the advice about a key names the database that the key belongs into', () => {
  assert.match(text({}), /with {2}npx oselya api-key create NAME/);
  const spaced = text({ dataDir: "/srv/my data's" });
  assert.ok(spaced.includes("DATA_DIR='/srv/my data'\\''s' npx oselya api-key create NAME"));
  assert.match(text({ isEmbedded: false }), /DATABASE_URL=… npx oselya api-key create NAME/);
});

test('the advice about a key asks the collector that runs', () => {
  assert.match(text({}), / {2}COLLECTOR_API_KEY=… npx oselya search/);
  const elsewhere = text({ collectorUrl: 'http://127.0.0.1:9001' });
  assert.match(elsewhere, /COLLECTOR_URL=http:\/\/127\.0\.0\.1:9001 COLLECTOR_API_KEY=… npx/);
});

test('the assistant that runs can be talked to, whether or not the collector asks for keys', () => {
  for (const keysRequired of [false, true]) {
    assert.match(text({ keysRequired }), /^ {4}npx oselya chat двокімнатна .*$/m);
    const assistantUrl = 'http://127.0.0.1:9000';
    assert.match(
      text({ keysRequired, assistantUrl }),
      /^ {4}npx oselya chat --url http:\/\/127\.0\.0\.1:9000 двокімнатна .*$/m,
    );
  }
});

test('the sample listings are told of while they are on their way', () => {
  assert.doesNotMatch(text({}), /sample listings/);
  assert.match(
    text({ samples: 95 }),
    /^ {2}95 sample listings were sent and are being processed\.$/m,
  );
  assert.match(text({ samples: 'being sent' }), /^ {2}The sample listings are still being sent: /m);
});

test('what is ignored is named, and what to run for it', () => {
  assert.doesNotMatch(text({}), /Ignored/);
  const told = text({ ignored: ['IDP_BASE_URL', 'IDP_CLIENT_ID'] });
  assert.match(told, /Ignored here.*: IDP_BASE_URL, IDP_CLIENT_ID\n.*npx oselya assistant/);
});
