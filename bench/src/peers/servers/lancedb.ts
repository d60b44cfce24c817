import { open } from 'node:fs/promises';
import { NUMBER_COLUMNS, readDocuments, STEM_FIELDS, TEXT_COLUMNS } from '../documents.ts';
import { loadPackage } from '../packages.ts';
import { type Alternative, formatConditions, type Question, quoteSql } from '../query.ts';
import { serveEngine } from './serve.ts';

type Query = {
  where(condition: string): Query;
  select(columns: string[]): Query;
  limit(limit: number): Query;
  fullTextSearch(query: object): Query;
  nearestTo(vector: number[]): VectorQuery;
  orderBy(order: { columnName: string }): Query;
  withRowId(): Query;
  toArray(): Promise<{ listing: string }[]>;
};
type VectorQuery = Query & {
  distanceType(type: 'cosine'): VectorQuery;
  nprobes(count: number): VectorQuery;
  refineFactor(factor: number): VectorQuery;
};
type Table = {
  add(rows: object): Promise<void>;
  createIndex(column: string, options: { config: object }): Promise<void>;
  optimize(): Promise<void>;
  query(): Query;
};
type Constructor = new (...values: unknown[]) => object;
type Lancedb = {
  connect(folder: string): Promise<{
    createEmptyTable(name: string, schema: object): Promise<Table>;
    openTable(name: string): Promise<Table>;
  }>;
  Index: Record<'fts' | 'btree' | 'bitmap' | 'ivfPq', (options?: object) => object>;
} & Record<'BooleanQuery' | 'MatchQuery' | 'PhraseQuery', Constructor>;
type Arrow = Record<
  'Schema' | 'Field' | 'Utf8' | 'Float32' | 'Int32' | 'FixedSizeList',
  Constructor
>;

const TABLE = 'listings';
const TEXTS = ['external_id', 'listing', ...Object.keys(STEM_FIELDS), ...TEXT_COLUMNS];
/** Stems are words between spaces, and are indexed unchanged. */
const STEM_INDEX = {
  baseTokenizer: 'whitespace',
  lowercase: false,
  stem: false,
  removeStopWords: false,
  asciiFolding: false,
  maxTokenLength: 100,
  withPosition: true,
};
const MIN_INDEXED_VECTORS = 10_000;
const DIMENSIONS = 384;
const BATCH_SIZE = 10_000;
/** Number of parts of the index to search, and of candidates for each hit whose vectors are compared exactly. */
const PROBES = 20;
const REFINE_FACTOR = 10;

let running: { lancedb: Lancedb; table: Table } | undefined;

function getRunning(): NonNullable<typeof running> {
  if (running === undefined) throw new Error('The table is not open');
  return running;
}

/** Loads the engine. A module that waited for it while it is imported would miss the first call of its parent. */
function loadEngine(): Promise<Lancedb> {
  // The engine warns at each search of the columns that it adds to the hits.
  process.env['LANCEDB_LOG'] = 'error';
  // With the default for two cores, building an index of words waits for itself.
  process.env['LANCE_CPU_THREADS'] = '4';
  return loadPackage<Lancedb>('@lancedb/lancedb');
}

async function createSchema(): Promise<object> {
  const arrow = await loadPackage<Arrow>('apache-arrow');
  const createField = (name: string, type: object) => new arrow.Field(name, type, false);
  const createFloat = () => new arrow.Float32();
  return new arrow.Schema([
    createField('id', new arrow.Int32()),
    ...TEXTS.map((name) => createField(name, new arrow.Utf8())),
    ...NUMBER_COLUMNS.map((name) => createField(name, createFloat())),
    createField(
      'vector',
      new arrow.FixedSizeList(DIMENSIONS, new arrow.Field('item', createFloat(), true)),
    ),
  ]);
}

serveEngine({
  async load({ folder, files }) {
    const lancedb = await loadEngine();
    const { Index } = lancedb;
    const database = await lancedb.connect(folder);
    const created = await database.createEmptyTable(TABLE, await createSchema());
    await using vectorFile = await open(files.vectors);
    let count = 0;
    for await (const batch of readDocuments(files.documents, BATCH_SIZE)) {
      const vectors = new Float32Array(batch.length * DIMENSIONS);
      await vectorFile.read(vectors);
      const getVector = (index: number) =>
        vectors.subarray(index * DIMENSIONS, (index + 1) * DIMENSIONS);
      await created.add(batch.map((row, index) => ({ ...row, vector: getVector(index) })));
      count += batch.length;
    }
    await created.optimize();
    for (const field of Object.keys(STEM_FIELDS))
      await created.createIndex(field, { config: Index.fts(STEM_INDEX) });
    for (const column of TEXT_COLUMNS)
      await created.createIndex(column, { config: Index.bitmap() });
    for (const column of NUMBER_COLUMNS)
      await created.createIndex(column, { config: Index.btree() });
    if (count >= MIN_INDEXED_VECTORS)
      await created.createIndex('vector', { config: Index.ivfPq({ distanceType: 'cosine' }) });
  },
  async open(folder) {
    const lancedb = await loadEngine();
    running = { lancedb, table: await (await lancedb.connect(folder)).openTable(TABLE) };
  },
  async search({ kind, groups, isAny, filters, vector, limit }: Question) {
    let query = getRunning().table.query();
    if (vector !== undefined) {
      const nearest = query.nearestTo(vector).distanceType('cosine');
      query = nearest.nprobes(PROBES).refineFactor(REFINE_FACTOR);
    }
    if (groups.length > 0) query = query.fullTextSearch(createWordQuery(groups, isAny));
    const conditions = formatConditions(filters, { equal: '=', quote: quoteSql });
    if (conditions.length > 0) query = query.where(conditions.join(' and '));
    // A sort fails without the row IDs, by which the columns of the hits are read.
    if (kind === 'by price') query = query.orderBy({ columnName: 'price' }).withRowId();
    const rows = await query.select(['listing']).limit(limit).toArray();
    return rows.map(({ listing }) => ({ listing }));
  },
  insert: (document) => getRunning().table.add([document]),
});

type Clause = [occur: 'MUST' | 'SHOULD' | 'MUST_NOT', query: object];

const combine = (clauses: Clause[]): object =>
  clauses.length === 1 && clauses[0]?.[0] !== 'MUST_NOT'
    ? (clauses[0]?.[1] ?? {})
    : new (getRunning().lancedb.BooleanQuery)(clauses);

function createWordQuery(groups: readonly Alternative[][], isAny = false): object {
  const createGroup = (alternatives: readonly Alternative[]) =>
    combine(alternatives.map((alternative) => ['SHOULD', createAlternativeQuery(alternative)]));
  return combine(groups.map((group) => [isAny ? 'SHOULD' : 'MUST', createGroup(group)]));
}

function createAlternativeQuery({ terms, without }: Alternative): object {
  const positive = findInFields(terms);
  return without.length === 0
    ? positive
    : combine([
        ['MUST', positive],
        ...without.map((term): Clause => ['MUST_NOT', findInFields([term])]),
      ]);
}

const findInFields = (terms: readonly string[]): object =>
  combine(
    Object.entries(STEM_FIELDS).map(([field, boost]): Clause => [
      'SHOULD',
      terms.length === 1
        ? new (getRunning().lancedb.MatchQuery)(terms[0], field, { boost })
        : new (getRunning().lancedb.PhraseQuery)(terms.join(' '), field, { slop: 4 }),
    ]),
  );
