import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { type ModelClient, ModelError } from '@oselya/model';
import {
  backfillEmbeddings,
  type BackfillOptions,
  type BackfillReport,
} from '../../src/embeddings/backfill.ts';
import {
  DIMENSIONS,
  openDatabase,
  payloadOf,
  countedModel,
  createHarness,
} from '../support/pipeline.ts';

const { db } = await openDatabase();
const harness = createHarness(db);
const LISTINGS = 150;

for (let nth = 0; nth < LISTINGS; nth += 1) {
  await harness.process(payloadOf({ external_id: `flat-${nth}`, title: `Квартира ${nth}` }));
}

type Embed = ModelClient['embed'];

/** The mock under another name, with what it was asked and a chance to interfere. */
function renamedModel(
  before: (texts: readonly string[]) => Promise<void> | void = () => undefined,
) {
  const mock = countedModel();
  const batches: number[] = [];
  const embed: Embed = async (texts, options) => {
    batches.push(texts.length);
    await before(texts);
    return { ...(await mock.embed(texts, options)), model: 'renamed' };
  };
  return { batches, embed, embeddingModel: 'renamed' };
}

function backfill(
  model: Parameters<typeof backfillEmbeddings>[0]['model'],
  options: Partial<BackfillOptions> = {},
) {
  const signal = new AbortController().signal;
  const all = { dryRun: false, signal, onProgress: () => undefined, ...options };
  return backfillEmbeddings({ db, model }, all);
}

async function countBy(model: string): Promise<number> {
  const rows = await db
    .selectFrom('property_listings')
    .select('id')
    .where('embedding_model', '=', model)
    .where('embedding', 'is not', null)
    .execute();
  return rows.length;
}

beforeEach(async () => {
  const report = await backfill(countedModel());
  assert.deepEqual(report.failed, []);
});

test('what the pipeline embedded is not outdated', async () => {
  const model = countedModel();
  const report = await backfill(model);
  assert.deepEqual(report, { checked: LISTINGS, outdated: 0, embedded: 0, changed: 0, failed: [] });
  assert.equal(model.calls.embed, 0);
});

test('another model: all are embedded again, 64 in a request, and then none', async () => {
  const model = renamedModel();
  const progress: number[] = [];
  const report = await backfill(model, {
    onProgress: ({ embedded }, total) => {
      assert.equal(total, LISTINGS);
      progress.push(embedded);
    },
  });
  assert.deepEqual(report, {
    checked: LISTINGS,
    outdated: LISTINGS,
    embedded: LISTINGS,
    changed: 0,
    failed: [],
  });
  assert.deepEqual(model.batches, [64, 64, 22]);
  assert.deepEqual(progress, [64, 128, 150, 150]);
  assert.equal(await countBy('renamed'), LISTINGS);
  assert.equal((await backfill(model)).outdated, 0);
});

test('missing ones, and those of another text, are filled in, archived ones too', async () => {
  await db
    .updateTable('property_listings')
    .set({ embedding: null })
    .where('external_id', '=', 'flat-1')
    .execute();
  await db
    .updateTable('property_listings')
    .set({ title: 'Інша назва', archived_at: new Date() })
    .where('external_id', '=', 'flat-2')
    .execute();
  const report = await backfill(countedModel());
  assert.deepEqual([report.outdated, report.embedded], [2, 2]);
});

test('a dry run counts and changes nothing', async () => {
  const model = renamedModel();
  const report = await backfill(model, { dryRun: true });
  assert.deepEqual([report.checked, report.outdated, report.embedded], [LISTINGS, LISTINGS, 0]);
  assert.deepEqual(model.batches, []);
  assert.equal(await countBy('renamed'), 0);
});

test('one that is ended is gone on with by the next', async () => {
  const stop = new AbortController();
  const model = renamedModel(() => {
    if (model.batches.length === 2) stop.abort();
  });
  const first = await backfill(model, { signal: stop.signal });
  assert.deepEqual([first.checked, first.outdated, first.embedded], [64, 64, 64]);
  const second = await backfill(model);
  assert.deepEqual([second.outdated, second.embedded], [86, 86]);
});

test('a listing that changes while it is embedded is left to its worker', async () => {
  let changed = false;
  const model = renamedModel(async () => {
    if (changed) return;
    changed = true;
    await db
      .updateTable('property_listings')
      .set({ title: 'Назва, що змінилася' })
      .where('external_id', '=', 'flat-3')
      .execute();
  });
  const report = await backfill(model);
  assert.deepEqual([report.outdated, report.embedded, report.changed], [LISTINGS, LISTINGS - 1, 1]);
  assert.deepEqual([(await backfill(model)).embedded, await countBy('renamed')], [1, LISTINGS]);
});

/** What the payloads' listings have cost so far, all together. */
async function costSoFar() {
  const raws = await db
    .selectFrom('raw_data')
    .select(['id', 'model_usage'])
    .orderBy('id')
    .execute();
  const calls = raws.map(({ model_usage: usage }) => usage?.calls ?? 0);
  return {
    calls,
    inputTokens: raws.reduce((sum, { model_usage: usage }) => sum + (usage?.input_tokens ?? 0), 0),
  };
}

test('what it cost is added to each payload, what failed and what changed meanwhile too', async () => {
  let counted = 0;
  const mock = countedModel();
  let hasChanged = false;
  const model = renamedModel(async (texts) => {
    if (!hasChanged) {
      hasChanged = true;
      const title = 'Назва, що змінилася, поки модель думала';
      await db.updateTable('property_listings').set({ title }).where('id', '=', 1).execute();
    }
    await mock.embed(texts, { observe: ({ inputTokens }) => (counted += inputTokens ?? 0) });
  });
  const before = await costSoFar();
  const report = await backfill(model);
  assert.deepEqual([report.embedded, report.changed], [LISTINGS - 1, 1]);
  const after = await costSoFar();
  assert.deepEqual(
    after.calls,
    before.calls.map((calls) => calls + 1),
    'a request that several shared counts for each',
  );
  assert.ok(counted > LISTINGS);
  assert.equal(after.inputTokens - before.inputTokens, counted, 'its tokens are divided');
  await backfill(model, { dryRun: true });
  assert.deepEqual(
    (await costSoFar()).calls.slice(1),
    after.calls.slice(1),
    'a dry run asks nothing',
  );
});

test('a run that the model ends has cost what it has', async () => {
  const mock = countedModel();
  const embed: Embed = async (texts, options) => {
    await mock.embed(texts, options);
    throw new ModelError('MODEL_UNREACHABLE', 'gone');
  };
  const before = await costSoFar();
  await assert.rejects(backfill({ embed, embeddingModel: 'renamed' }), ModelError);
  const after = await costSoFar();
  assert.deepEqual(
    after.calls.map((calls, index) => calls - (before.calls[index] ?? 0)),
    before.calls.map((_, index) => (index < 64 ? 1 : 0)),
  );
});

const tooLong = () => new ModelError('MODEL_REJECTED', 'The text is too long.');

/** Whether one of the texts is of the listing of this number. */
const isOf = (texts: readonly string[], nth: number) =>
  texts.some((text) => text.startsWith(`Квартира ${nth}\n`));

test('texts that the model refuses are named, and the others are filled in, however often it is given', async () => {
  const model = renamedModel((texts) => {
    if (isOf(texts, 7) || isOf(texts, 9)) throw tooLong();
  });
  const first = await backfill(model);
  assert.equal(first.embedded, LISTINGS - 2);
  const second = await backfill(model);
  assert.deepEqual([second.checked, second.outdated, second.embedded], [LISTINGS, 2, 0]);
  assert.deepEqual(second.failed, first.failed);
  assert.deepEqual(
    second.failed.map(({ reason }) => reason),
    ['The text is too long.', 'The text is too long.'],
  );
});

for (const [name, code, ends] of [
  ['is ended', 'MODEL_ABORTED', (stop: AbortController) => stop.abort()],
  ['loses its server', 'MODEL_UNREACHABLE', () => undefined],
] as const) {
  test(`a run that ${name} while texts go one by one keeps what was embedded, and names only what was refused`, async () => {
    const stop = new AbortController();
    const model = renamedModel((texts) => {
      if (texts.length > 1 || model.batches.length === 2) throw tooLong();
      if (model.batches.length === 3) return;
      ends(stop);
      throw new ModelError(code, 'gone');
    });
    const progress: Readonly<BackfillReport>[] = [];
    const ended = backfill(model, {
      signal: stop.signal,
      onProgress: (report) => progress.push({ ...report, failed: [...report.failed] }),
    });
    if (code === 'MODEL_UNREACHABLE') await assert.rejects(ended, { code });
    else assert.deepEqual(await ended, progress.at(-1));
    const { checked, outdated, embedded, failed } = progress.at(-1) ?? assert.fail();
    assert.deepEqual([checked, outdated, embedded], [2, 2, 1]);
    assert.deepEqual(
      failed.map(({ reason }) => reason),
      ['The text is too long.'],
    );
    assert.equal(await countBy('renamed'), 1);
  });
}

for (const [name, code, requests] of [
  ['a server that fails', 'MODEL_UNREACHABLE', 1],
  ['a model that refuses every text of a batch, and a plain one', 'MODEL_REJECTED', 66],
] as const) {
  test(`${name} ends the run`, async () => {
    const model = renamedModel(() => {
      throw new ModelError(code, 'no');
    });
    await assert.rejects(
      backfill(model),
      (error) => error instanceof ModelError && error.code === code,
    );
    assert.equal(model.batches.length, requests);
  });
}

test('two at once, beside a worker, end with every listing embedded by its text', async () => {
  const model = renamedModel();
  const worker = createHarness(db, { model: { ...countedModel(), ...model } });
  await Promise.all([
    backfill(model),
    backfill(model),
    (async () => {
      for (let nth = 0; nth < 10; nth += 1) {
        await worker.process(payloadOf({ external_id: `flat-${nth}`, title: `Оновлена ${nth}` }));
      }
    })(),
  ]);
  assert.equal((await backfill(model)).outdated, 0);
  assert.equal(await countBy('renamed'), LISTINGS);
  const { rows } = await db
    .selectFrom('property_listings')
    .select('embedding')
    .execute()
    .then((all) => ({
      rows: all.map(({ embedding }) => JSON.parse(embedding ?? '[]') as number[]),
    }));
  assert.ok(rows.every((vector) => vector.length === DIMENSIONS));
});
