import {
  analyzeQuery,
  computeStoredStems,
  createSearchService,
  getMigrateOptions,
  refreshVocabulary,
  resolveFilters,
  searchByStems,
  storeStartingRates,
  type Tables,
} from '@oselya/collector/internals';
import { connect, migrate } from '@oselya/db';
import { createModelClient } from '@oselya/model';
import { formatGoals, formatNumber, formatTable, type Goal } from '../report.ts';
import type { Context, Report } from '../suite.ts';
import { type LabelledQuery, readQueries, storeListings } from './golden.ts';
import { averageRelevance, measureHits, type Relevance } from './measures.ts';

const DIMENSIONS = 384;
const LIMIT = 10;
/** A smoke run takes each tenth query. */
const SMOKE_STEP = 10;

const GOALS = { top1: 0.92, top5: 0.98, ndcg: 0.85 } as const;

/** Returns the names of the hits of a query, best first. */
export type Retriever = (query: string) => Promise<string[]>;

type Row = { retriever: string; half: string; kind: string; queries: number } & Relevance;

/** Measures how well each kind of search finds the listings of the labelled queries. */
export async function measureRelevance(context: Context): Promise<Report> {
  const { options, results, logProgress } = context;
  await using scope = new AsyncDisposableStack();
  const retrievers = await openRetrievers(scope, context);
  const allQueries = await readQueries();
  const queries = options.isSmokeRun
    ? allQueries.filter((_, index) => index % SMOKE_STEP === 0)
    : allQueries;
  const rows: Row[] = [];
  for (const [retriever, retrieve] of Object.entries(retrievers)) {
    logProgress(`${retriever}: ${queries.length} queries`);
    const measures = new Map<LabelledQuery, Relevance>();
    for (const query of queries) {
      const hits = await retrieve(query.query);
      const measure = measureHits(hits, query.relevant);
      measures.set(query, measure);
      await results.keep('query', { retriever, ...query, hits, ...measure });
    }
    rows.push(...summarize(retriever, measures));
  }
  for (const row of rows) await results.keep('relevance', row);
  const goals = options.isSmokeRun ? [] : evaluateGoals(rows);
  for (const goal of goals) await results.keep('goal', goal);
  return { text: formatReport(rows, goals), failures: [] };
}

/** Stores the golden texts in a database, and returns each kind of search on it. */
export async function openRetrievers(
  scope: AsyncDisposableStack,
  { databases, logProgress, signal }: Context,
): Promise<Record<string, Retriever>> {
  const { url } = scope.use(await databases.createDatabase());
  const database = scope.adopt(await connect<Tables>({ url }), ({ close }) => close());
  await migrate(database, getMigrateOptions({ EMBEDDING_DIMENSIONS: DIMENSIONS }));
  const { db } = database;
  const model = createModelClient({
    mode: 'mock',
    chat: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: DIMENSIONS,
  });
  await storeStartingRates(db);
  logProgress('storing the golden texts');
  const names = await storeListings(db, model);
  await computeStoredStems(db, signal);
  await refreshVocabulary(db, signal, { isForced: true });
  const service = createSearchService({ db, model });
  const listNames = (hits: readonly { id: number }[]) => hits.map(({ id }) => names.get(id) ?? '');
  const listItems = ({ items }: { items: { listing: { listing_id: number } }[] }) =>
    listNames(items.map(({ listing }) => ({ id: listing.listing_id })));
  return {
    words: async (query) => listItems(await service.fulltext({ query, limit: LIMIT })),
    stems: async (query) => {
      const { groups, limits } = analyzeQuery(query);
      const filters = await resolveFilters(db, limits);
      const { hits } = await searchByStems(db, groups, {
        filters,
        limit: LIMIT,
        newestId: names.size,
      });
      return listNames(hits);
    },
    meaning: async (query) => listItems(await service.similar({ query, limit: LIMIT }, signal)),
    hybrid: async (query) => listItems(await service.hybrid({ query, limit: LIMIT }, signal)),
  };
}

function summarize(retriever: string, measures: ReadonlyMap<LabelledQuery, Relevance>): Row[] {
  const entries = [...measures].map(([{ half, kind }, measure]) => ({ half, kind, measure }));
  const groups = [
    ...Map.groupBy(entries, ({ half }) => `${half} all`),
    ...Map.groupBy(entries, ({ half, kind }) => `${half} ${kind}`),
  ];
  return groups.map(([name, members]) => {
    const [half = '', kind = ''] = name.split(' ');
    const relevance = averageRelevance(members.map(({ measure }) => measure));
    return { retriever, half, kind, queries: members.length, ...relevance };
  });
}

function evaluateGoals(rows: readonly Row[]): Goal[] {
  const row = rows.find(
    ({ retriever, half, kind }) => retriever === 'hybrid' && half === 'test' && kind === 'all',
  );
  return Object.entries(GOALS).map(([name, atLeast]) => {
    const value = row?.[name as keyof typeof GOALS] ?? 0;
    return {
      goal: `hybrid, test half, ${name}: at least ${atLeast}`,
      measured: formatNumber(value, 3),
      isMet: value >= atLeast,
    };
  });
}

function formatReport(rows: readonly Row[], goals: readonly Goal[]): string {
  const shownRows = rows.filter(({ retriever, kind }) => kind === 'all' || retriever === 'hybrid');
  const table = formatTable(
    ['', 'queries', 'first right', 'one in five', 'nDCG@10', 'recall@10'],
    shownRows.map(({ retriever, half, kind, queries, top1, top5, ndcg, recall }) => [
      `${retriever}, ${half}, ${kind}`,
      String(queries),
      ...[top1, top5, ndcg, recall].map((value) => formatNumber(value, 3)),
    ]),
  );
  return [table, ...(goals.length > 0 ? [formatGoals(goals)] : [])].join('\n\n');
}
