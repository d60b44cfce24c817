import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { countOpenDescriptors, deferCleanup, until } from '@oselya/testing';
import { openTestDatabase, type TestDatabase } from '@oselya/testing/database';
import { createLogger, createServer, type Server } from '@oselya/kit';
import {
  createModelClient,
  type BreakerState,
  type BreakerView,
  type ModelClient,
  type ModelClientOptions,
} from '@oselya/model';
import {
  createCompletion,
  createConstantHandler,
  createConstantVector,
  startModelServer as start,
  type ScriptedResponse,
  type ReceivedRequest,
} from '@oselya/model/testing';
import {
  sql,
  type Kysely,
  type KyselyPlugin,
  type RootOperationNode,
  type UpdateObject,
} from 'kysely';
import { Registry } from 'prom-client';
import type { Dispatcher } from 'undici';
import { getMigrateOptions } from '../../src/database.ts';
import { createBatchingEmbedder } from '../../src/embeddings/batches.ts';
import { hashContent, type Payload } from '../../src/ingest/payload.ts';
import { storeRawRecords } from '../../src/ingest/store.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createModelUsageCounter } from '../../src/model.ts';
import type {
  JobContext,
  JobInput,
  StageDeps,
  StageName,
  StageResult,
} from '../../src/pipeline/context.ts';
import { createPipeline, createStages, type PipelineDeps } from '../../src/pipeline/pipeline.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import type { ClaimResult, Job } from '../../src/queue/job-types.ts';
import { createJobRunner } from '../../src/queue/job-runner.ts';
import { startWorker } from '../../src/queue/worker.ts';
import type { Tables } from '../../src/tables.ts';

export const DIMENSIONS = 16;

/** Settings of a collector in a test. */
export const MINIMAL_ENV = {
  COLLECTOR_PORT: '0',
  EMBEDDING_DIMENSIONS: String(DIMENSIONS),
  MIN_FREE_DISK_MB: '0',
};

/** Opens the collector's database for a test file. */
export function openDatabase(): Promise<TestDatabase<Tables>> {
  return openTestDatabase<Tables>([getMigrateOptions({ EMBEDDING_DIMENSIONS: DIMENSIONS })]);
}

/** Stores a payload without ingest limits and checks. */
export async function store(db: Kysely<Tables>, payload: Payload): Promise<number> {
  const rawRecord = {
    source_slug: payload.source_slug,
    external_id: payload.external_id,
    payload: JSON.stringify(payload),
    content_hash: hashContent(payload),
  };
  const [storedRecord] = await storeRawRecords(db, [rawRecord], assert.ifError);
  assert.ok(storedRecord !== undefined && 'id' in storedRecord);
  return storedRecord.id;
}

export function readRawRecord(db: Kysely<Tables>, rawId: number) {
  return db.selectFrom('raw_data').selectAll().where('id', '=', rawId).executeTakeFirstOrThrow();
}

/** Waits until a payload is completed, and returns its record. */
export function waitUntilCompleted(db: Kysely<Tables>, rawId: number) {
  return until(`raw record ${rawId} to be completed`, async () => {
    const record = await readRawRecord(db, rawId);
    return record.status === 'completed' && record;
  });
}

/** Counts the stored payloads. */
export async function countPayloads(db: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*) as n from raw_data`.execute(db);
  return rows[0]?.n ?? 0;
}

/** Changes columns of a raw record. */
export async function updateRawRecord(
  db: Kysely<Tables>,
  rawId: number,
  values: UpdateObject<Tables, 'raw_data'>,
): Promise<void> {
  await db.updateTable('raw_data').set(values).where('id', '=', rawId).execute();
}

/** Returns the settings of a collector that uses a model server. */
export const createModelEnv = (url: string) => ({
  MODEL_MODE: 'openai',
  MODEL_BASE_URL: url,
  MODEL_CHAT: 'chat',
  MODEL_EMBEDDING: 'embedding',
});

let payloadCount = 0;

/** Creates a valid payload. By default, it belongs to a new listing. */
export function createPayload(overrides: Partial<Payload> = {}): Payload {
  payloadCount += 1;
  return {
    source_slug: 'doshka',
    external_id: `flat-${payloadCount}`,
    title: 'Двокімнатна квартира',
    description: 'Продам двокімнатну квартиру у Львові, 54 м², 3 поверх з 5. Ціна 62 000 дол.',
    ...overrides,
  };
}

/** Creates a breaker whose state the test sets. */
export function createFakeBreaker(initial: BreakerState = 'closed'): BreakerView & {
  set(state: BreakerState): void;
  /** Starts or ends a probe without notifying listeners. */
  probe(isProbeRunning: boolean): void;
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
    probe(isProbeRunning) {
      isProbing = isProbeRunning;
    },
  };
}

export const log = createLogger({ level: 'silent', service: 'test' });

/** Creates a server without routes, which is closed after the tests of the file. */
export async function createTestServer(bodyLimit = 1024 * 1024): Promise<Server> {
  const openapi = { title: 'Test', description: 'A test.', version: '1' };
  const app = await createServer({ log, bodyLimit, openapi });
  deferCleanup(() => app.close());
  return app;
}

/** Creates a mock model that counts its calls. */
export function createCountingModel(): PipelineDeps['model'] & {
  calls: { chat: number; embed: number };
} {
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

/** Image service that finds no images. */
export const emptyImageService: PipelineDeps['images'] = {
  processRemote: () => Promise.resolve([]),
  processUploaded: () => Promise.resolve([]),
  describeAll: () => Promise.resolve(0),
};

/** Makes all delayed jobs due. */
export async function makeJobsDue(db: Kysely<Tables>): Promise<void> {
  await db
    .updateTable('raw_data')
    .set({ retry_at: null })
    .where('retry_at', 'is not', null)
    .execute();
}

/** Claims the next job. */
export async function claimJob(db: Kysely<Tables>): Promise<Job> {
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job, 'a job is pending');
  return job;
}

/** Creates a harness that runs jobs one after another, like a worker with one slot. */
export function createHarness(db: Kysely<Tables>, overrides: Partial<PipelineDeps> = {}) {
  const metrics = createMetrics(new Registry());
  const deps: PipelineDeps = {
    db,
    model: createCountingModel(),
    images: emptyImageService,
    log,
    ...overrides,
  };
  const runPipeline = createPipeline({ ...deps, metrics, modelTimeoutMs: 10_000, retryMs: 0 });
  const runner = createJobRunner({ db, metrics, log, leaseMs: 60_000 });

  /** Claims and runs the next job, even if it waits for its retry. */
  async function runNext(input: JobInput = {}): Promise<ClaimResult> {
    await makeJobsDue(db);
    const job = await claimJob(db);
    return runner.run(job, (run) => runPipeline(job, run, input));
  }

  /** Stores a payload, runs the next job, and returns the raw record of the payload. */
  async function process(payload: Payload) {
    const rawId = await store(db, payload);
    await runNext();
    return readRawRecord(db, rawId);
  }

  return { runNext, process };
}

/** Creates a function that runs single stages of a job. */
export function createStageRunner(
  db: Kysely<Tables>,
  images: StageDeps['images'] = emptyImageService,
): (context: JobContext, name: StageName) => Promise<StageResult> {
  const model = createCountingModel();
  const embedText = createBatchingEmbedder(model);
  const { observe } = createModelUsageCounter();
  const jobModel: StageDeps['model'] = {
    ...model,
    embed: (text, signal) => embedText({ text, signal, observe }),
    observe,
  };
  const deps: StageDeps = { db, model: jobModel, images, log };
  const stages = new Map(createStages(10_000).map((stage) => [stage.name, stage]));
  return async (context, name) => {
    const stage = stages.get(name);
    assert.ok(stage);
    return stage.run(context, deps, new AbortController().signal);
  };
}

/** Returns the outcomes of stages by name. */
export const getOutcomes = (rawRecord: { stages: { stage: string; outcome: string }[] }) =>
  Object.fromEntries(rawRecord.stages.map(({ stage, outcome }) => [stage, outcome]));

/** Reads all rows that the pipeline writes. */
export async function readAllRows(db: Kysely<Tables>) {
  return {
    raws: await db.selectFrom('raw_data').selectAll().orderBy('id').execute(),
    listings: await db.selectFrom('property_listings').selectAll().orderBy('id').execute(),
    currents: await db.selectFrom('listing_payloads').selectAll().orderBy('raw_id').execute(),
    snapshots: await db.selectFrom('listing_snapshots').selectAll().orderBy('id').execute(),
    enrichments: await db
      .selectFrom('listing_enrichments')
      .selectAll()
      .orderBy('listing_id')
      .orderBy('kind')
      .execute(),
  };
}

/** Reads the enrichments of a listing by kind. */
export async function readEnrichments(db: Kysely<Tables>, listingId: number | null) {
  const rows = await db
    .selectFrom('listing_enrichments')
    .select(['kind', 'value'])
    .where('listing_id', '=', listingId ?? 0)
    .execute();
  return Object.fromEntries(rows.map(({ kind, value }) => [kind, value]));
}

/** Reads a listing's snapshots, the oldest first. */
export function readSnapshots(db: Kysely<Tables>, listingId: number | null) {
  return db
    .selectFrom('listing_snapshots')
    .select(['raw_id', 'changes', 'listing', 'model', 'prompt_version'])
    .where('listing_id', '=', listingId ?? 0)
    .orderBy('raw_id')
    .orderBy('revision')
    .execute();
}

export function findListingPayloads(
  db: Kysely<Tables>,
  { source_slug, external_id }: Pick<Payload, 'source_slug' | 'external_id'>,
) {
  return db
    .selectFrom('listing_payloads')
    .selectAll()
    .where('source_slug', '=', source_slug)
    .where('external_id', '=', external_id)
    .executeTakeFirst();
}

export function findListing(db: Kysely<Tables>, { external_id }: Payload) {
  return db
    .selectFrom('property_listings')
    .selectAll()
    .where('external_id', '=', external_id)
    .executeTakeFirst();
}

export const OVERLOADED = { status: 503, body: { error: { message: 'overloaded' } } };
const DESCRIPTION = { description: 'A bright kitchen.', room_type: 'kitchen', quality: 'good' };

/** Function that writes a response in place of the server. */
export type ResponseWriter = (response: ServerResponse) => void;

/** Starts a model server with faults that the test sets. */
export async function startModelServer() {
  const state: {
    isUp: boolean;
    requestCount: number;
    /** Number of chat requests without an image. */
    chatRequestCount: number;
    /** Returns whether the server responds to a request with status 500. */
    isServerError?: ((request: ReceivedRequest) => boolean) | undefined;
    writeResponse?: ResponseWriter | undefined;
    /** Returns a response in place of an image's description. */
    describeImage?: ((request: ReceivedRequest) => ScriptedResponse | undefined) | undefined;
    /** Returns a response that takes precedence over all others except that of `writeResponse`. */
    createResponse?: ((request: ReceivedRequest) => ScriptedResponse | undefined) | undefined;
    /** Called before each response. */
    delay?: (() => Promise<void>) | undefined;
  } = { isUp: true, requestCount: 0, chatRequestCount: 0 };
  const answer = createConstantHandler({ createVector: createConstantVector(DIMENSIONS) });
  const server = await start(async (request) => {
    state.requestCount += 1;
    if (request.path.endsWith('/chat/completions') && !hasImage(request))
      state.chatRequestCount += 1;
    await state.delay?.();
    if (state.writeResponse !== undefined) return { write: state.writeResponse };
    const response = state.createResponse?.(request);
    if (response !== undefined) return response;
    if (state.isServerError?.(request) === true) return { status: 500, body: {} };
    if (!state.isUp) return OVERLOADED;
    if (!isDescriptionRequest(request)) return answer(request);
    return state.describeImage?.(request) ?? createCompletion(JSON.stringify(DESCRIPTION));
  });
  return { ...server, state };
}

/** Returns whether a request shows an image in OpenAI's protocol. */
export const hasImage = ({ text }: ReceivedRequest): boolean => text.includes('"type":"image_url"');

/** Returns whether a request asks for the description of an image. */
const isDescriptionRequest = (request: ReceivedRequest): boolean =>
  hasImage(request) && request.text.includes('room_type');

const TIMEOUT_MS = 10_000;

/** Creates a client of a model server with short delays, or a mock client if `url` is undefined. */
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
 * Starts a worker with a pipeline in this process. Disposal stops the worker and waits until its resources are free.
 */
export function startModelWorker(
  options: {
    database: TestDatabase<Tables>;
    model: ModelClient;
    modelTimeoutMs: number;
    images: PipelineDeps['images'];
    slots: number;
    /** Delay before a job is retried after a server error. */
    retryMs: number;
  } & Pick<Resources, 'servers' | 'folder'>,
) {
  const { database, model, modelTimeoutMs, images, slots, retryMs, ...resources } = options;
  const { db } = database;
  const deps = { db, model, images, metrics: createMetrics(new Registry()), log };
  const worker = startWorker({
    ...deps,
    processJob: createPipeline({ ...deps, modelTimeoutMs, retryMs }),
    breaker: model.breaker,
    slots,
    leaseMs: 60_000,
    maxAttempts: 3,
    pollMs: 10,
  });
  const dispose = async (): Promise<void> => {
    await worker.stop({ timeoutMs: 5000 });
    await model.close();
    await waitUntilResourcesAreFree({ database, ...resources });
  };
  return { model, worker, [Symbol.asyncDispose]: dispose };
}

/** Counts payloads by status. */
export async function countByStatus(
  db: Kysely<Tables>,
): Promise<Record<'pending' | 'completed' | 'failed', number>> {
  const rows = await db
    .selectFrom('raw_data')
    .select(['status', (eb) => eb.fn.countAll<number>().as('n')])
    .groupBy('status')
    .execute();
  const counts = Object.fromEntries(rows.map(({ status, n }) => [status, n]));
  return { pending: 0, completed: 0, failed: 0, ...counts };
}

/** Waits until a statement waits for a lock. This never happens in the embedded database. */
export function waitForBlockedStatement(db: Kysely<Tables>): Promise<true> {
  return until('a statement to wait for a lock', async () => {
    const { rows } = await sql`select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
    return rows.length > 0;
  });
}

/** Adds an application name to a database URL. */
export function setApplicationName(url: string, name: string): string {
  const address = new URL(url);
  address.searchParams.set('application_name', name);
  return address.href;
}

/** Counts the connections with an application name. */
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

const listNodes = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(listNodes)];

function toExplainStatement(node: RootOperationNode): RootOperationNode {
  if (node.kind !== 'RawNode') return node;
  const [firstFragment = '', ...otherFragments] = node.sqlFragments;
  return {
    ...node,
    sqlFragments: [`explain (analyze, format json) ${firstFragment}`, ...otherFragments],
  };
}

/**
 * Explains the `sql` statements of a function. Each statement returns no rows to the function.
 * @returns The indexes and node kinds of the plans, and the number of raw records that the statements read.
 */
export async function explain(db: Kysely<Tables>, work: (db: Kysely<Tables>) => Promise<unknown>) {
  const nodes: Plan[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => toExplainStatement(node),
    transformResult({ result }) {
      for (const row of result.rows) {
        const [{ Plan }] = row['QUERY PLAN'] as [{ Plan: Plan }];
        nodes.push(...listNodes(Plan));
      }
      return Promise.resolve({ ...result, rows: [] });
    },
  };
  await work(db.withPlugin(plugin));
  const payloadNodes = nodes.filter((node) => node['Relation Name'] === 'raw_data');
  return {
    kinds: new Set(nodes.map((node) => node['Node Type'])),
    indexes: [...new Set(nodes.flatMap((node) => node['Index Name'] ?? []))].toSorted(),
    rowsRead: payloadNodes.reduce(
      (total, node) =>
        total +
        (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
      0,
    ),
  };
}

/** Resources that a fault must not leak: connections, and temporary files in a data folder. */
type Resources = {
  database?: Pick<TestDatabase<Tables>, 'pool'>;
  servers?: readonly { connections: () => Promise<number> }[];
  folder?: string;
};

/** Waits until no connection is in use, no connection to a server is open, and no temporary file is left. */
export async function waitUntilResourcesAreFree(resources: Resources): Promise<void> {
  const { database, servers = [], folder } = resources;
  const isFree = () =>
    database === undefined || database.pool.totalCount === database.pool.idleCount;
  await until('free connections', isFree);
  for (const { connections } of servers) {
    await until('no connection to a server', async () => (await connections()) === 0);
  }
  if (folder === undefined) return;
  await until('no temporary file', async () => (await listTemporaryFiles(folder)).length === 0);
}

/** Lists the temporary files of a collector's data folder, without their locks. */
export async function listTemporaryFiles(dataDir: string): Promise<string[]> {
  const entries = await readdir(join(dataDir, 'images', 'incoming'), {
    recursive: true,
    withFileTypes: true,
  }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('lock'))
    .map((entry) => entry.name);
}

/**
 * Creates a check that a fault leaks no resource, and counts the open descriptors before the fault.
 * @param options.countKnownDescriptors Counts the open descriptors that are not leaks.
 * @returns A function that waits until there is no temporary file, no connection to the image host, and no added
 *   descriptor except those of the database pool.
 */
export async function createResourceLeakCheck(options: {
  database: Pick<TestDatabase<Tables>, 'pool' | 'url'>;
  dataDir: string;
  host?: { connections: () => Promise<number> };
  countKnownDescriptors?: () => number;
}): Promise<() => Promise<void>> {
  const { database, dataDir, host, countKnownDescriptors = () => 0 } = options;
  const countPooledConnections = () => (database.url === undefined ? 0 : database.pool.totalCount);
  const countUnexpectedDescriptors = async () =>
    (await countOpenDescriptors()) - countPooledConnections() - countKnownDescriptors();
  const initialCount = await endIdleConnections().then(countUnexpectedDescriptors);
  return async () => {
    await endIdleConnections();
    const servers = host === undefined ? [] : [host];
    await waitUntilResourcesAreFree({ servers, folder: dataDir });
    await until(
      'no added descriptor',
      async () => (await countUnexpectedDescriptors()) <= initialCount,
    );
  };
}

const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/** Ends the idle connections of `fetch`, whose number is random. */
async function endIdleConnections(): Promise<void> {
  // Node does not export the class, and there is no dispatcher before the first request.
  const dispatcher = Reflect.get(globalThis, DISPATCHER) as Dispatcher | undefined;
  if (dispatcher === undefined) return;
  const DispatcherClass = dispatcher.constructor as new () => Dispatcher;
  Reflect.set(globalThis, DISPATCHER, new DispatcherClass());
  await dispatcher.close();
}
