import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { type ModelClient, ModelError } from '@oselya/model';
import { sql } from 'kysely';
import {
  backfillEmbeddings,
  type BackfillOptions,
  type BackfillReport,
} from '../../src/embeddings/backfill.ts';
import {
  createCountingModel,
  createHarness,
  openDatabase,
  createPayload,
} from '../support/pipeline.ts';

const { db } = await openDatabase();
const harness = createHarness(db);
const LISTING_COUNT = 150;

for (let index = 0; index < LISTING_COUNT; index += 1) {
  await harness.process(
    createPayload({ external_id: `flat-${index}`, title: `Квартира ${index}` }),
  );
}

/** Creates the mock model under a different name. It records batch sizes, and calls `before` with the texts. */
function createRenamedModel(
  before: (texts: readonly string[]) => Promise<void> | void = () => undefined,
) {
  const mockModel = createCountingModel();
  const batchSizes: number[] = [];
  const embed: ModelClient['embed'] = async (texts, options) => {
    batchSizes.push(texts.length);
    await before(texts);
    return { ...(await mockModel.embed(texts, options)), model: 'renamed' };
  };
  return { batchSizes, embed, embeddingModel: 'renamed' };
}

function backfill(
  model: Parameters<typeof backfillEmbeddings>[0]['model'],
  options: Partial<BackfillOptions> = {},
) {
  const signal = new AbortController().signal;
  const allOptions = { dryRun: false, signal, onProgress: () => undefined, ...options };
  return backfillEmbeddings({ db, model }, allOptions);
}

async function countEmbeddings(model: string): Promise<number> {
  const { rows } = await sql`select from property_listings
    where embedding_model = ${model} and embedding is not null`.execute(db);
  return rows.length;
}

beforeEach(async () => {
  const report = await backfill(createCountingModel());
  assert.deepEqual(report.failed, []);
});

test('All listings are embedded again for another model, 32 in a request', async () => {
  const model = createRenamedModel();
  const progress: number[] = [];
  const report = await backfill(model, {
    onProgress: ({ embedded }, total) => {
      assert.equal(total, LISTING_COUNT);
      progress.push(embedded);
    },
  });
  const counts = { checked: LISTING_COUNT, outdated: LISTING_COUNT, embedded: LISTING_COUNT };
  assert.deepEqual(report, { ...counts, changed: 0, failed: [] });
  assert.deepEqual(model.batchSizes, [32, 32, 32, 32, 22]);
  assert.deepEqual(progress, [32, 64, 96, 128, 150, 150]);
  assert.equal(await countEmbeddings('renamed'), LISTING_COUNT);
  const secondModel = createRenamedModel();
  assert.equal((await backfill(secondModel)).outdated, 0);
  assert.deepEqual(secondModel.batchSizes, []);
});

test('Missing and outdated embeddings are made, of archived listings too', async () => {
  await sql`update property_listings set embedding = null where external_id = 'flat-1'`.execute(db);
  await sql`update property_listings set title = 'Інша назва', archived_at = now()
    where external_id = 'flat-2'`.execute(db);
  const report = await backfill(createCountingModel());
  assert.deepEqual([report.outdated, report.embedded], [2, 2]);
});

/** Returns the model calls of each raw record, and the sum of their input tokens. */
async function readCosts() {
  const rawRecords = await db
    .selectFrom('raw_data')
    .select(['id', 'model_usage'])
    .orderBy('id')
    .execute();
  const calls = rawRecords.map(({ model_usage: usage }) => usage?.calls ?? 0);
  return {
    calls,
    inputTokens: rawRecords.reduce(
      (sum, { model_usage: usage }) => sum + (usage?.input_tokens ?? 0),
      0,
    ),
  };
}

test('A listing that changes during its embedding is left to a worker, and its cost is kept', async () => {
  let tokenCount = 0;
  const mockModel = createCountingModel();
  const model = createRenamedModel(async (texts) => {
    if (tokenCount === 0) {
      const title = 'Назва, що змінилася, за цей час';
      await db.updateTable('property_listings').set({ title }).where('id', '=', 1).execute();
    }
    await mockModel.embed(texts, {
      observe: ({ inputTokens }) => (tokenCount += inputTokens ?? 0),
    });
  });
  const costsBefore = await readCosts();
  const report = await backfill(model);
  const counts = { outdated: LISTING_COUNT, embedded: LISTING_COUNT - 1, changed: 1 };
  assert.partialDeepStrictEqual(report, counts);
  assert.ok(tokenCount > LISTING_COUNT);
  // A shared request counts for each listing, but its tokens are divided.
  assert.deepEqual(await readCosts(), {
    calls: costsBefore.calls.map((count) => count + 1),
    inputTokens: costsBefore.inputTokens + tokenCount,
  });
  assert.equal((await backfill(model)).embedded, 1);
  assert.equal(await countEmbeddings('renamed'), LISTING_COUNT);
});

const createRejection = () => new ModelError('MODEL_REJECTED', 'The text is too long.');

/** Returns whether one of the texts belongs to the listing with this number. */
const includesListing = (texts: readonly string[], index: number) =>
  texts.some((text) => text.startsWith(`Квартира ${index}\n`));

test('Rejected texts are reported by each run, and the others are embedded', async () => {
  const model = createRenamedModel((texts) => {
    if (includesListing(texts, 7) || includesListing(texts, 9)) throw createRejection();
  });
  const firstReport = await backfill(model);
  assert.equal(firstReport.embedded, LISTING_COUNT - 2);
  const secondReport = await backfill(model);
  const { failed } = firstReport;
  const counts = { checked: LISTING_COUNT, outdated: 2, embedded: 0, failed };
  assert.partialDeepStrictEqual(secondReport, counts);
  const reasons = secondReport.failed.map(({ reason }) => reason);
  assert.deepEqual(reasons, ['The text is too long.', 'The text is too long.']);
});

for (const [title, code, endRun] of [
  ['A stopped run', 'MODEL_ABORTED', (stopController: AbortController) => stopController.abort()],
  ['A run that loses its server', 'MODEL_UNREACHABLE', () => undefined],
] as const) {
  test(`${title} keeps its embeddings and reports only the rejected texts`, async () => {
    const stopController = new AbortController();
    const model = createRenamedModel((texts) => {
      if (texts.length > 1 || model.batchSizes.length === 2) throw createRejection();
      if (model.batchSizes.length === 3) return;
      endRun(stopController);
      throw new ModelError(code, 'gone');
    });
    const progress: Readonly<BackfillReport>[] = [];
    const backfillRun = backfill(model, {
      signal: stopController.signal,
      onProgress: (report) => progress.push({ ...report, failed: [...report.failed] }),
    });
    if (code === 'MODEL_UNREACHABLE') await assert.rejects(backfillRun, { code });
    else assert.deepEqual(await backfillRun, progress.at(-1));
    const { checked, outdated, embedded, failed } = progress.at(-1) ?? assert.fail();
    assert.deepEqual([checked, outdated, embedded, failed.length], [2, 2, 1, 1]);
    assert.equal(await countEmbeddings('renamed'), 1);
  });
}

test('A failed server, or a model that rejects a plain text too, ends the run', async () => {
  for (const [code, requestCount] of [
    ['MODEL_UNREACHABLE', 1],
    ['MODEL_REJECTED', 34],
  ] as const) {
    const model = createRenamedModel(() => {
      throw new ModelError(code, 'no');
    });
    await assert.rejects(backfill(model), { code });
    assert.equal(model.batchSizes.length, requestCount);
  }
});

test('Two runs beside a worker end with every listing embedded', async () => {
  const model = createRenamedModel();
  const workerHarness = createHarness(db, { model: { ...createCountingModel(), ...model } });
  const updateListings = async () => {
    for (let index = 0; index < 10; index += 1) {
      await workerHarness.process(
        createPayload({ external_id: `flat-${index}`, title: `Оновлена ${index}` }),
      );
    }
  };
  await Promise.all([backfill(model), backfill(model), updateListings()]);
  assert.equal((await backfill(model)).outdated, 0);
  assert.equal(await countEmbeddings('renamed'), LISTING_COUNT);
});
