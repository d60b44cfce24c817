import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { orderForRound } from '../load/rounds.ts';
import { startProcess } from '../process/parent.ts';
import { openExact } from '../search/exact.ts';
import { openListings } from '../search/stack.ts';
import { percentiles } from '../statistics.ts';
import type { Context, Report } from '../suite.ts';
import type { DocumentFiles } from './documents.ts';
import { type Client, type Engine, measureMemory, type RunningEngine } from './engine.ts';
import { ENGINES, loadEngine, OSELYA } from './engines.ts';
import { createNewDocument, readListings, writeDocuments } from './export.ts';
import type { LoadGenerator } from './load.ts';
import { createPeerQuestions, createWordGroups } from './questions.ts';
import type { Question } from './query.ts';
import { measureOwnRelevance, measurePeerRelevance, writeGoldenDocuments } from './relevance.ts';
import { type Findings, formatReport, type Resources, type Sample } from './report.ts';

const CLIENTS = [1, 8];
const QUESTIONS = 400;
const RECALL_QUESTIONS = 20;
const RECALL_LIMIT = 10;
const CHECKED_QUESTIONS = 12;
const SEED = 20_260_109;
/** Number of new listings, one after another, and of attempts to find one. */
const INSERTIONS = 20;
const MAX_ATTEMPTS = 10_000;

const FULL = { listings: 1_000_000, engines: ENGINES };
/** SQLite is part of Node, so a smoke run installs nothing. */
const SMOKE = { listings: 300, engines: [OSELYA, 'fts5'] };

const LOAD_MODULE = new URL('load.ts', import.meta.url);

type Variant = {
  name: string;
  engine: Engine;
  /** Folder of the data; for Oselya the URL of the database. */
  folder: string;
  resources: Resources;
};

/** Measures the searches of the collector and of its peers on the same listings, one engine at a time. */
export async function measurePeers(context: Context): Promise<Report> {
  const { options, results, logProgress, signal } = context;
  const defaults = options.isSmokeRun ? SMOKE : FULL;
  const [listings = defaults.listings] = options.listings ?? [];
  await using scope = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  scope.defer(() => rm(folder, { recursive: true, force: true }));
  const ownLoad = await time(() => openListings(listings, context));
  const { url } = scope.use(ownLoad.value);
  const findings: Findings = { listings, samples: [], resources: [], relevance: [] };
  // The suite `relevance` has a smoke run of the collector's searches.
  if (!options.isSmokeRun) findings.relevance.push(...(await measureOwnRelevance(context)));

  logProgress(`exporting ${listings} listings`);
  const files = createFiles(folder, 'listings');
  await writeDocuments(files, readListings(url));
  const goldenFiles = createFiles(folder, 'golden');
  await writeGoldenDocuments(goldenFiles);
  const variants: Variant[] = [];
  for (const name of defaults.engines) {
    const engine = await loadEngine(name);
    const version = await engine.findVersion();
    if (version === undefined) {
      logProgress(`${name} is not installed`);
      continue;
    }
    if (name === OSELYA) {
      // A kept database may have been loaded by another run.
      const loadSeconds = options.keep ? null : ownLoad.seconds;
      variants.push({
        name,
        engine,
        folder: url,
        resources: { engine: name, version, loadSeconds },
      });
      continue;
    }
    const goldenFolder = await createFolder(folder, `${name}-golden`);
    await engine.load({ folder: goldenFolder, files: goldenFiles, signal });
    findings.relevance.push(...(await measureRelevance(name, engine, goldenFolder, context)));
    logProgress(`${name} ${version}: loading`);
    const dataFolder = await createFolder(folder, name);
    const load = await time(() => engine.load({ folder: dataFolder, files, signal }));
    logProgress(`${name}: loaded in ${load.seconds.toFixed(0)} s`);
    const resources = { engine: name, version, loadSeconds: load.seconds };
    variants.push({ name, engine, folder: dataFolder, resources });
  }

  const nearest = await findNearest(url);
  const prices = new Map<string, string>();
  const failures: string[] = [];
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderForRound(round, variants)) {
      await using server = await variant.engine.start(variant.folder, signal);
      findings.samples.push(...(await measureSearches(variant, server, round, context)));
      if (round < options.rounds) continue;
      failures.push(...(await checkPrices(variant, server, prices)));
      const resources = {
        ...variant.resources,
        ...(await measureResources(variant, server, nearest)),
      };
      await results.keep('resources', resources);
      findings.resources.push(resources);
    }
  }
  return { text: formatReport(findings, options), failures };
}

const createFiles = (folder: string, name: string): DocumentFiles => ({
  documents: join(folder, `${name}.jsonl`),
  vectors: join(folder, `${name}.f32`),
});

async function createFolder(parent: string, name: string): Promise<string> {
  const folder = join(parent, name);
  await mkdir(folder);
  return folder;
}

async function time<Value>(work: () => Promise<Value>): Promise<{ value: Value; seconds: number }> {
  const startedAt = performance.now();
  const value = await work();
  return { value, seconds: (performance.now() - startedAt) / 1000 };
}

/** Connects to a server for the duration of a function. */
async function withClient<Value>(
  engine: Engine,
  { urls }: RunningEngine,
  use: (client: Client) => Promise<Value>,
): Promise<Value> {
  const client = await engine.connect(urls[0] ?? '');
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

async function measureRelevance(name: string, engine: Engine, folder: string, context: Context) {
  await using server = await engine.start(folder, context.signal);
  return await withClient(engine, server, (client) =>
    measurePeerRelevance(name, engine, client, context),
  );
}

async function measureSearches(
  { name, engine }: Variant,
  { urls }: RunningEngine,
  round: number,
  { options, results, signal, logProgress }: Context,
): Promise<Sample[]> {
  await using load = startProcess<LoadGenerator>(LOAD_MODULE, signal);
  const samples: Sample[] = [];
  for (const kind of engine.kinds) {
    const questions = createPeerQuestions(kind, QUESTIONS, SEED + round);
    const requests = questions.map((question) => engine.prepare(question));
    const settings = { engine: name, urls, requests };
    await load.call('run', { ...settings, clients: 1, seconds: options.seconds * 0.4 });
    for (const clients of CLIENTS) {
      const { seconds } = options;
      const outcome = await load.call('run', { ...settings, clients, seconds });
      const [p50 = 0, p95 = 0] = percentiles(outcome.latencies, [0.5, 0.95]);
      const rate = outcome.latencies.length / outcome.seconds;
      const searches = outcome.latencies.length;
      const sample = { engine: name, kind, clients, round, searches, p50, p95, rate };
      await results.keep('sample', sample);
      samples.push(sample);
      const latencies = `p50 ${p50.toFixed(1)}, p95 ${p95.toFixed(1)} ms`;
      logProgress(`round ${round}: ${name}, ${kind}, ${clients} clients: ${latencies}`);
    }
  }
  return samples;
}

type Nearest = { question: Question; ids: number[] }[];

/** Finds the nearest listings of some vectors by comparing all listings. */
async function findNearest(databaseUrl: string): Promise<Nearest> {
  await using exact = await openExact(databaseUrl);
  const nearest: Nearest = [];
  for (const question of createPeerQuestions('vector', RECALL_QUESTIONS, SEED)) {
    const ids = await exact.nearest(question.vector ?? [], {}, RECALL_LIMIT);
    nearest.push({ question: { ...question, limit: RECALL_LIMIT }, ids });
  }
  return nearest;
}

async function measureResources(
  { engine }: Variant,
  server: RunningEngine,
  nearest: Nearest,
): Promise<Partial<Resources>> {
  const memory = await measureMemory(await server.processIds());
  const diskBytes = await server.measureDisk();
  return withClient(engine, server, async (client) => {
    const recall = engine.kinds.includes('vector')
      ? await measureRecall(engine, client, nearest)
      : null;
    return { memory, diskBytes, recall, insertMs: await measureInsertions(engine, client, server) };
  });
}

async function measureRecall(engine: Engine, client: Client, nearest: Nearest): Promise<number> {
  let foundCount = 0;
  for (const { question, ids } of nearest) {
    const hits = engine.readHits(await client.send(engine.prepare(question)));
    foundCount += hits.filter(({ id }) => ids.includes(id)).length;
  }
  return foundCount / nearest.reduce((sum, { ids }) => sum + ids.length, 0);
}

/** Measures the times from the sending of each new listing until a search finds it, in milliseconds. */
async function measureInsertions(
  engine: Engine,
  client: Client,
  server: RunningEngine,
): Promise<number[]> {
  const times: number[] = [];
  for (let number = 0; number < INSERTIONS; number += 1) {
    const { document, word } = createNewDocument(number);
    const groups = createWordGroups(word);
    const request = engine.prepare({ kind: 'words', query: word, groups, filters: {}, limit: 1 });
    const { seconds } = await time(async () => {
      await server.insert(document);
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
        const [hit] = engine.readHits(await client.send(request));
        if (hit?.external_id === document.external_id) return;
      }
      throw new Error(`${document.external_id} was not found`);
    });
    times.push(seconds * 1000);
  }
  return times;
}

/** Checks that searches by price have hits with the same prices in all engines. */
async function checkPrices(
  { name, engine }: Variant,
  server: RunningEngine,
  prices: Map<string, string>,
): Promise<string[]> {
  return withClient(engine, server, async (client) => {
    const failures: string[] = [];
    for (const question of createPeerQuestions('by price', CHECKED_QUESTIONS, SEED)) {
      const hits = engine.readHits(await client.send(engine.prepare(question)));
      const key = JSON.stringify(question.filters);
      const found = hits.map(({ price }) => price).join();
      const expected = prices.get(key) ?? found;
      prices.set(key, expected);
      if (found !== expected) failures.push(`${name}: ${key} has other prices: ${found}`);
    }
    return failures;
  });
}
