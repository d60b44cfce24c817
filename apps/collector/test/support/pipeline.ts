import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { openTestDatabase, type TestDatabase } from '@oselya/db/testing';
import { createLogger } from '@oselya/kit';
import {
  createModelClient,
  type BreakerState,
  type BreakerView,
  type ModelClient,
  type ModelClientOptions,
} from '@oselya/model';
import {
  completion,
  constantAnswers,
  constantVector,
  startModelServer as start,
  type Answer,
  type ReceivedRequest,
} from '@oselya/model/testing';
import { openDescriptors, until } from '@oselya/testing';
import { sql, type Kysely, type KyselyPlugin, type RootOperationNode } from 'kysely';
import { Registry } from 'prom-client';
import type { Dispatcher } from 'undici';
import { migrations } from '../../src/database.ts';
import { createEmbeddingBatches } from '../../src/embeddings/batches.ts';
import { contentHash, type Payload } from '../../src/ingest/payload.ts';
import { storeRaws } from '../../src/ingest/store.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createModelCost } from '../../src/model.ts';
import type {
  Context,
  JobInput,
  StageDeps,
  StageName,
  StageResult,
} from '../../src/pipeline/context.ts';
import {
  createJobModel,
  createPipeline,
  createStages,
  type PipelineDeps,
} from '../../src/pipeline/pipeline.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import type { JobOutcome } from '../../src/queue/job.ts';
import { createJobRunner } from '../../src/queue/run-jobs.ts';
import { startWorker } from '../../src/queue/worker.ts';
import type { Tables } from '../../src/tables.ts';

export const DIMENSIONS = 16;

/** The collector's database for one test file. */
export function openDatabase(): Promise<TestDatabase<Tables>> {
  return openTestDatabase<Tables>([migrations({ EMBEDDING_DIMENSIONS: DIMENSIONS })]);
}

/** Stores a payload as the ingest does, past its limits and checks. */
export async function store(db: TestDatabase<Tables>['db'], payload: Payload): Promise<number> {
  const raw = {
    source_slug: payload.source_slug,
    external_id: payload.external_id,
    payload: JSON.stringify(payload),
    content_hash: contentHash(payload),
  };
  const [stored] = await storeRaws(db, [raw], assert.ifError);
  assert.ok(stored !== undefined && 'id' in stored);
  return stored.id;
}

/** A raw record as it stands. */
export function rawRecord(db: TestDatabase<Tables>['db'], rawId: number) {
  return db.selectFrom('raw_data').selectAll().where('id', '=', rawId).executeTakeFirstOrThrow();
}

let made = 0;

/** A good payload, of a listing of its own unless `external_id` is given. */
export function payloadOf(overrides: Partial<Payload> = {}): Payload {
  made += 1;
  return {
    source_slug: 'doshka',
    external_id: `flat-${made}`,
    title: 'Двокімнатна квартира',
    description: 'Продам двокімнатну квартиру у Львові, 54 м², 3 поверх з 5. Ціна 62 000 дол.',
    ...overrides,
  };
}

/** A breaker that a test moves. */
export function fakeBreaker(initial: BreakerState = 'closed'): BreakerView & {
  set(state: BreakerState): void;
  /** Sends the probe on its way, or lets it end; nobody is told of that alone. */
  probe(isOnItsWay: boolean): void;
} {
  let state = initial;
  let isProbing = false;
  const listeners = new Set<(state: BreakerState) => void>();
  return {
    get state() {
      return state;
    },
    get isOpen() {
      return state === 'open' || isProbing;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    set(next) {
      state = next;
      isProbing = false;
      for (const listener of listeners) listener(next);
    },
    probe(isOnItsWay) {
      isProbing = isOnItsWay;
    },
  };
}

export const log = createLogger({ level: 'silent', service: 'test' });

/** The mock model, with a count of its calls. */
export function countedModel(): PipelineDeps['model'] & { calls: { chat: number; embed: number } } {
  const client = createModelClient({
    mode: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: DIMENSIONS,
  });
  const calls = { chat: 0, embed: 0 };
  return {
    calls,
    chatModel: client.chatModel,
    embeddingModel: client.embeddingModel,
    generateObject: ((request) => {
      calls.chat += 1;
      return client.generateObject(request);
    }) satisfies ModelClient['generateObject'],
    embed: (texts, options) => {
      calls.embed += 1;
      return client.embed(texts, options);
    },
  };
}

/** Listings without pictures. */
export const noImages: PipelineDeps['images'] = {
  processRemote: () => Promise.resolve([]),
  processUploaded: () => Promise.resolve([]),
  describeAll: () => Promise.resolve(0),
};

/** Takes payloads through the pipeline, one after another, as a worker with one slot does. */
export function createHarness(
  db: TestDatabase<Tables>['db'],
  overrides: Partial<PipelineDeps> = {},
) {
  const metrics = createMetrics(new Registry());
  const deps: PipelineDeps = {
    db,
    model: countedModel(),
    images: noImages,
    log,
    ...overrides,
  };
  const runner = createJobRunner<JobInput>({
    db,
    process: createPipeline({ ...deps, metrics, modelTimeoutMs: 10_000, retryMs: 0 }),
    metrics,
    log,
    leaseMs: 60_000,
  });

  /** Claims the next job and runs it, also one that is to wait. */
  async function runNext(input: JobInput = {}): Promise<JobOutcome> {
    await db.updateTable('raw_data').set({ retry_at: null }).execute();
    const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
    assert.ok(job, 'there is a job to claim');
    return runner.run(job, { input });
  }

  /** Stores a payload, runs it, and gives its record. */
  async function process(payload: Payload) {
    const rawId = await store(db, payload);
    await runNext();
    return rawRecord(db, rawId);
  }

  return { runNext, process };
}

/** Runs single stages of a job, as the pipeline does one after another. */
export function createStageRunner(
  db: TestDatabase<Tables>['db'],
  images: StageDeps['images'] = noImages,
): (context: Context, name: StageName) => Promise<StageResult> {
  const model = countedModel();
  const jobModel = createJobModel(model, createEmbeddingBatches(model), {
    cost: createModelCost(),
  });
  const deps: StageDeps = { db, model: jobModel, images, log };
  const stages = new Map(createStages(10_000).map((stage) => [stage.name, stage]));
  return async (context, name) => {
    const stage = stages.get(name);
    assert.ok(stage);
    return stage.run(context, deps, new AbortController().signal);
  };
}

/** How each stage of a payload ended. */
export const outcomesOf = (raw: { stages: { stage: string; outcome: string }[] }) =>
  Object.fromEntries(raw.stages.map(({ stage, outcome }) => [stage, outcome]));

/** A listing's snapshots, the oldest first. */
export function snapshotsOf(db: TestDatabase<Tables>['db'], listingId: number | null) {
  return db
    .selectFrom('listing_snapshots')
    .select(['raw_id', 'changes', 'listing', 'model', 'prompt_version'])
    .where('listing_id', '=', listingId ?? 0)
    .orderBy('raw_id')
    .orderBy('revision')
    .execute();
}

/** How far the payloads of a listing have come. */
export function currentOf(
  db: TestDatabase<Tables>['db'],
  { source_slug, external_id }: Pick<Payload, 'source_slug' | 'external_id'>,
) {
  return db
    .selectFrom('listing_payloads')
    .selectAll()
    .where('source_slug', '=', source_slug)
    .where('external_id', '=', external_id)
    .executeTakeFirst();
}

/** The listing that a payload made. */
export function listingOf(db: TestDatabase<Tables>['db'], { external_id }: Payload) {
  return db
    .selectFrom('property_listings')
    .selectAll()
    .where('external_id', '=', external_id)
    .executeTakeFirst();
}

export const OVERLOADED = { status: 503, body: { error: { message: 'overloaded' } } };
const DESCRIPTION = { description: 'A bright kitchen.', room_type: 'kitchen', quality: 'good' };
const REFUSAL = { error: { message: 'The image is too small' } };

/** Answers a request in another way, or not at all. */
export type Interference = (response: ServerResponse) => void;

/** A model server that a test can take away, have misbehave, and bring back. */
export async function startModelServer() {
  const state: {
    up: boolean;
    /** Whether it embeds, while it is up. */
    embeds: boolean;
    /** Whether it answers what has a picture, while it is up. */
    sees: boolean;
    requests: number;
    /** Those of them that want a text to be read, and reached it. */
    readings: number;
    /** Requests that it answers with 400. */
    refuses?: ((request: ReceivedRequest) => boolean) | undefined;
    /** Requests that it crashes on. */
    crashesOn?: ((request: ReceivedRequest) => boolean) | undefined;
    interfere?: Interference | undefined;
    /** What it says of a picture in place of its description. */
    saysOf?: ((request: ReceivedRequest) => Answer | undefined) | undefined;
    /** What it answers in place of what it would; nothing leaves that. */
    answers?: ((request: ReceivedRequest) => Answer | undefined) | undefined;
    /** What it does before it answers. */
    delay?: (() => Promise<void>) | undefined;
  } = { up: true, embeds: true, sees: true, requests: 0, readings: 0 };
  const answer = constantAnswers({ vectorOf: constantVector(DIMENSIONS) });
  const server = await start(async (request) => {
    state.requests += 1;
    if (request.path.endsWith('/chat/completions') && !hasPicture(request)) state.readings += 1;
    await state.delay?.();
    if (state.interfere !== undefined) return { write: state.interfere };
    const instead = state.answers?.(request);
    if (instead !== undefined) return instead;
    if (state.refuses?.(request) === true) return { status: 400, body: REFUSAL };
    if (state.crashesOn?.(request) === true) return { status: 500, body: {} };
    const embeds = state.embeds || !request.path.endsWith('/embeddings');
    const sees = state.sees || !hasPicture(request);
    if (!(state.up && embeds && sees)) return OVERLOADED;
    if (!isToDescribe(request)) return answer(request);
    return state.saysOf?.(request) ?? completion(JSON.stringify(DESCRIPTION));
  });
  return { ...server, state };
}

/** Whether a request shows the model a picture, as OpenAI's protocol has it; payloads have `image_urls` too. */
export function hasPicture({ body }: ReceivedRequest): boolean {
  return JSON.stringify(body).includes('"type":"image_url"');
}

/** Whether a request wants a picture to be described, as the pipeline does. */
function isToDescribe(request: ReceivedRequest): boolean {
  return hasPicture(request) && JSON.stringify(request.body).includes('room_type');
}

const TIMEOUT_MS = 10_000;

/** The mock, or a client of a model server, whose waits are some milliseconds. */
export function openModel(
  url: string | undefined,
  options: Partial<ModelClientOptions> = {},
): ModelClient {
  return createModelClient({
    mode: url === undefined ? 'mock' : 'openai',
    baseUrl: url,
    chat: 'chat',
    embedding: 'embedding',
    timeoutMs: TIMEOUT_MS,
    embeddingDimensions: DIMENSIONS,
    retry: { initialDelayMs: 1, maxDelayMs: 5 },
    breaker: { halfOpenAfterMs: 30 },
    ...options,
  });
}

/**
 * A worker of this process, which takes jobs off the queue through the pipeline, and the model that it asks.
 * @param places What it may leave something in, beside the database: looked at when it has ended.
 */
export function startModelWorker({
  database,
  model,
  modelTimeoutMs = TIMEOUT_MS,
  images = noImages,
  slots = 4,
  retryMs = 100,
  ...places
}: {
  database: TestDatabase<Tables>;
  model: ModelClient;
  modelTimeoutMs?: number | undefined;
  images?: PipelineDeps['images'];
  slots?: number;
  /** How long a job waits on which the server failed. */
  retryMs?: number;
} & Pick<Places, 'servers' | 'folder'>) {
  const { db } = database;
  const deps = { db, model, images, metrics: createMetrics(new Registry()), log };
  const worker = startWorker({
    ...deps,
    process: createPipeline({ ...deps, modelTimeoutMs, retryMs }),
    breaker: model.breaker,
    slots,
    leaseMs: 60_000,
    maxAttempts: 3,
    pollMs: 10,
  });
  const dispose = async (): Promise<void> => {
    await worker.stop({ timeoutMs: 5000 });
    await model.close();
    await untilNothingIsLeft({ database, ...places });
  };
  return { model, worker, [Symbol.asyncDispose]: dispose };
}

/** How many payloads there are of each status. */
export async function countByStatus(
  db: Kysely<Tables>,
): Promise<Record<'pending' | 'completed' | 'failed', number>> {
  const rows = await db
    .selectFrom('raw_data')
    .select(['status', (eb) => eb.fn.countAll<number>().as('n')])
    .groupBy('status')
    .execute();
  const counted = Object.fromEntries(rows.map(({ status, n }) => [status, n]));
  return { pending: 0, completed: 0, failed: 0, ...counted };
}

/** What the requests to the model were, as the payloads have them counted. */
export async function sumUsage(
  db: Kysely<Tables>,
): Promise<{ calls: number; inputTokens: number; outputTokens: number }> {
  const raws = await db.selectFrom('raw_data').select('model_usage').execute();
  const sum = (key: 'calls' | 'input_tokens' | 'output_tokens') =>
    raws.reduce((total, { model_usage: usage }) => total + (usage?.[key] ?? 0), 0);
  return {
    calls: sum('calls'),
    inputTokens: sum('input_tokens'),
    outputTokens: sum('output_tokens'),
  };
}

/** Waits until a statement waits for a lock; the embedded database, which takes one at a time, has none that do. */
export function untilLockWait(db: Kysely<Tables>): Promise<true> {
  return until('a statement to wait for a lock', async () => {
    const { rows } = await sql`select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
    return rows.length > 0;
  });
}

/** An address by which a server can tell the connections of whoever uses it from others. */
export function named(url: string, name: string): string {
  const address = new URL(url);
  address.searchParams.set('application_name', name);
  return address.href;
}

/** How many connections the server has of clients of a name, whatever these think of them. */
export async function countConnections(db: Kysely<Tables>, name: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::integer as n from pg_stat_activity
    where datname = current_database() and application_name = ${name}`.execute(db);
  return rows[0]?.n ?? 0;
}

type Plan = {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
};

const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

function explained(node: RootOperationNode): RootOperationNode {
  if (node.kind !== 'RawNode') return node;
  const [first = '', ...rest] = node.sqlFragments;
  return { ...node, sqlFragments: [`explain (analyze, format json) ${first}`, ...rest] };
}

/**
 * Returns the plans of the statements of `sql` that some work executes. To the work each seems to return no rows.
 * @returns The indexes that they use, the kinds of their nodes, and how many payloads they read.
 */
export async function explain(db: Kysely<Tables>, work: (db: Kysely<Tables>) => Promise<unknown>) {
  const nodes: Plan[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => explained(node),
    transformResult({ result }) {
      for (const row of result.rows) {
        const [{ Plan }] = row['QUERY PLAN'] as [{ Plan: Plan }];
        nodes.push(...nodesOf(Plan));
      }
      return Promise.resolve({ ...result, rows: [] });
    },
  };
  await work(db.withPlugin(plugin));
  const ofPayloads = nodes.filter((node) => node['Relation Name'] === 'raw_data');
  return {
    kinds: new Set(nodes.map((node) => node['Node Type'])),
    indexes: [...new Set(nodes.flatMap((node) => node['Index Name'] ?? []))].toSorted(),
    rowsRead: ofPayloads.reduce(
      (sum, node) =>
        sum + (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
      0,
    ),
  };
}

/** What a fault may have left something in. */
export type Places = {
  /** Whose connections nobody has in use. */
  database?: Pick<TestDatabase<Tables>, 'pool'>;
  /** Servers that no connection is open to: of the model, of pictures. */
  servers?: readonly { connections: () => Promise<number> }[];
  /** Where no temporary file is. */
  folder?: string;
};

/** Waits until a fault, and whatever it met, has left nothing behind; fails where something stays. */
export async function untilNothingIsLeft({
  database,
  servers = [],
  folder,
}: Places): Promise<void> {
  await until('the connections to be free', () => {
    return database === undefined || database.pool.totalCount === database.pool.idleCount;
  });
  for (const { connections } of servers) {
    await until('the connections to a server to end', async () => (await connections()) === 0);
  }
  await until('the temporary files to go', async () => {
    return folder === undefined || (await temporaryFiles(folder)).length === 0;
  });
}

/** The temporary files of a collector's data folder, without the locks beside them. */
export async function temporaryFiles(dataDir: string): Promise<string[]> {
  const entries = await readdir(join(dataDir, 'images', 'incoming'), {
    recursive: true,
    withFileTypes: true,
  }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('lock'))
    .map((entry) => entry.name);
}

/**
 * Notes what this process has open before something goes wrong. What is opened once and stays, such as the
 * folder of its temporary files, has to be open by then.
 * @param options.dataDir The collector's DATA_DIR.
 * @param options.host Whom pictures are fetched from.
 * @param options.known How many further descriptors there are by right, at any time.
 * @returns Waits until there is no temporary file, no connection to the host, and no descriptor that was not
 *   there before. What the pool keeps open to the database, and the test's own `fetch`, is none.
 */
export async function watchLeftovers(options: {
  database: Pick<TestDatabase<Tables>, 'pool' | 'url'>;
  dataDir: string;
  host?: { connections: () => Promise<number> };
  known?: () => number;
}): Promise<() => Promise<void>> {
  const { database, dataDir, host, known = () => 0 } = options;
  const pooled = () => (database.url === undefined ? 0 : database.pool.totalCount);
  const descriptors = async () => (await openDescriptors()) - pooled() - known();
  const before = await endIdleConnections().then(descriptors);
  return async () => {
    await endIdleConnections();
    await until('no temporary file', async () => (await temporaryFiles(dataDir)).length === 0);
    await until(
      'no connection to the host',
      async () => host === undefined || (await host.connections()) === 0,
    );
    await until('no further descriptor', async () => (await descriptors()) <= before);
  };
}

/** Where Node keeps what `fetch` sends requests by. */
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/** Ends the connections that `fetch` would keep for a minute: how many there are is up to chance. */
async function endIdleConnections(): Promise<void> {
  // Node's own class, which `import` does not give; there is none before the first request.
  const dispatcher = Reflect.get(globalThis, DISPATCHER) as Dispatcher | undefined;
  if (dispatcher === undefined) return;
  const Class = dispatcher.constructor as new () => Dispatcher;
  Reflect.set(globalThis, DISPATCHER, new Class());
  await dispatcher.close();
}
