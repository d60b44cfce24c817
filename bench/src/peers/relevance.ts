import { readListings, readQueries } from '../relevance/golden.ts';
import { averageRelevance, measureHits, type Relevance } from '../relevance/measures.ts';
import { openRetrievers, type Retriever } from '../relevance/relevance.ts';
import { DIMENSIONS } from '../search/stack.ts';
import type { Context } from '../suite.ts';
import type { DocumentFiles } from './documents.ts';
import type { Client, Engine } from './engine.ts';
import { toDocument, writeDocuments } from './export.ts';
import { createAnalyzedGroups, createWordGroups } from './questions.ts';
import type { Question } from './query.ts';

/** Relevance of the hits of an engine for the test half of the labelled queries. */
export type EngineRelevance = Relevance & { engine: string; terms: string; queries: number };

const LIMIT = 10;
const SMOKE_STEP = 10;

/** Returns the parts of a question from a query, by what they are made of. */
const TERMS: Record<string, (query: string) => Pick<Question, 'groups' | 'filters'>> = {
  'stems of the words': (query) => ({ groups: createWordGroups(query), filters: {} }),
  'terms of the analysis': createAnalyzedGroups,
};

/** Writes the golden texts as documents. No engine searches them by vectors. */
export async function writeGoldenDocuments(files: DocumentFiles): Promise<void> {
  const vector = Array.from({ length: DIMENSIONS }, () => 1);
  const documents = (await readListings()).map(({ name, state, columns }, index) => ({
    document: toDocument(index + 1, { ...state, ...columns, external_id: name }),
    vector,
  }));
  await writeDocuments(
    files,
    (async function* () {
      yield await Promise.resolve(documents);
    })(),
  );
}

/** Measures the collector's searches on the labelled queries. */
export async function measureOwnRelevance(context: Context): Promise<EngineRelevance[]> {
  await using scope = new AsyncDisposableStack();
  const { stems, hybrid } = await openRetrievers(scope, context);
  if (stems === undefined || hybrid === undefined) throw new Error('A kind of search is missing');
  return [
    await measure({ engine: 'oselya', terms: 'stems alone' }, stems, context),
    await measure({ engine: 'oselya', terms: 'hybrid' }, hybrid, context),
  ];
}

/** Measures a peer with the golden texts on the labelled queries. */
export async function measurePeerRelevance(
  name: string,
  engine: Engine,
  client: Client,
  context: Context,
): Promise<EngineRelevance[]> {
  const rows: EngineRelevance[] = [];
  for (const [terms, createParts] of Object.entries(TERMS)) {
    const retrieve: Retriever = async (query) => {
      const parts = createParts(query);
      if (parts.groups.length === 0) return [];
      const search = async (isAny: boolean) => {
        const question = { kind: 'words', query, ...parts, isAny, limit: LIMIT } as const;
        const hits = engine.readHits(await client.send(engine.prepare(question)));
        return hits.map(({ external_id }) => external_id);
      };
      // Like the collector, a search with too few hits goes on with listings that lack some of the words.
      const hits = await search(false);
      return hits.length >= LIMIT ? hits : [...new Set([...hits, ...(await search(true))])];
    };
    rows.push(await measure({ engine: name, terms }, retrieve, context));
  }
  return rows;
}

async function measure(
  row: Pick<EngineRelevance, 'engine' | 'terms'>,
  retrieve: Retriever,
  { options, results, logProgress }: Context,
): Promise<EngineRelevance> {
  const testQueries = (await readQueries()).filter(({ half }) => half === 'test');
  const queries = testQueries.filter((_, index) => !options.isSmokeRun || index % SMOKE_STEP === 0);
  const measures: Relevance[] = [];
  for (const { query, relevant } of queries) {
    const hits = (await retrieve(query)).slice(0, LIMIT);
    const measured = measureHits(hits, relevant);
    measures.push(measured);
    await results.keep('query', { ...row, query, hits, ...measured });
  }
  const relevance = { ...row, queries: queries.length, ...averageRelevance(measures) };
  await results.keep('relevance', relevance);
  logProgress(`${row.engine}, ${row.terms}: nDCG@10 ${relevance.ndcg.toFixed(3)}`);
  return relevance;
}
