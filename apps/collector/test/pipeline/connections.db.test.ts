import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '@oselya/db';
import { atEnd } from '@oselya/testing';
import { Registry } from 'prom-client';
import type { Tables } from '../../src/tables.ts';
import { backfillEmbeddings } from '../../src/embeddings/backfill.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { createInlineJobs } from '../../src/queue/inline.ts';
import { createReprocess } from '../../src/reprocess/reprocess.ts';
import { createSearchService } from '../../src/search/service.ts';
import {
  openDatabase,
  store,
  payloadOf,
  countedModel,
  createHarness,
  log,
  noImages,
} from '../support/pipeline.ts';

/** A database with one connection. */
const created = await openDatabase();
const { db } =
  created.url === undefined
    ? created
    : await connect<Tables>({ url: created.url, maxConnections: 1 }).then((narrow) => {
        atEnd(narrow.close);
        return narrow;
      });

const PATIENCE_MS = 5000;
const { signal } = new AbortController();

/** Creates a model that holds one kind of request until the test answers it. */
function heldModel(held: 'generateObject' | 'embed') {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const mock = countedModel();
  const wait = (): Promise<void> => {
    asked.resolve();
    return answer.promise;
  };
  const model: typeof mock = {
    ...mock,
    // With another model every listing is embedded again.
    embeddingModel: 'held',
    async generateObject(request) {
      if (held === 'generateObject') await wait();
      return mock.generateObject(request);
    },
    async embed(texts, options) {
      if (held === 'embed') await wait();
      return mock.embed(texts, options);
    },
  };
  return { model, asked: asked.promise, answer: answer.resolve };
}

type Model = ReturnType<typeof countedModel>;

/** Users of the model. */
const uses: [
  name: string,
  held: 'generateObject' | 'embed',
  use: (model: Model) => Promise<unknown>,
][] = [
  ['the validate stage', 'generateObject', work],
  ['the embed stage', 'embed', work],
  [
    'a similar search',
    'embed',
    (model) => createSearchService({ db, model }).similar({ query: 'квартира' }, signal),
  ],
  [
    'a hybrid search',
    'embed',
    (model) => createSearchService({ db, model }).hybrid({ query: 'квартира' }, signal),
  ],
  [
    'a backfill',
    'embed',
    (model) =>
      backfillEmbeddings({ db, model }, { dryRun: false, signal, onProgress: () => undefined }),
  ],
  ['a reprocess', 'generateObject', reprocess],
];

async function work(model: Model): Promise<void> {
  await store(db, payloadOf());
  assert.equal(await createHarness(db, { model }).runNext(), 'completed');
}

async function reprocess(model: Model): Promise<void> {
  const deps = { db, model, images: noImages, log, metrics: createMetrics(new Registry()) };
  const process = createPipeline({ ...deps, modelTimeoutMs: PATIENCE_MS });
  const jobs = createInlineJobs({ ...deps, process, leaseMs: 60_000 });
  try {
    const reprocessing = createReprocess({ ...deps, jobs, leaseMs: 60_000, parallel: 4 });
    const outcomes = await Array.fromAsync(
      reprocessing.read({}, { limit: 1, signal, dryRun: false }),
    );
    assert.deepEqual(
      outcomes.map(({ outcome }) => outcome),
      ['read'],
    );
  } finally {
    await jobs.close({ timeoutMs: PATIENCE_MS });
  }
}

await createHarness(db).process(payloadOf());

for (const [name, held, use] of uses) {
  test(`${name} holds no connection while the model answers`, async () => {
    const { model, asked, answer } = heldModel(held);
    const using = use(model);
    await Promise.race([asked, using]);
    const late = Promise.withResolvers<string>();
    const timer = setTimeout(() => late.resolve('no connection was free'), PATIENCE_MS);
    const other = db
      .selectFrom('property_listings')
      .select('id')
      .execute()
      .then(() => 'answered');
    assert.equal(await Promise.race([other, late.promise]), 'answered');
    clearTimeout(timer);
    answer();
    await using;
  });
}
