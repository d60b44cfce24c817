import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import {
  type Document,
  FIELDS,
  NUMBER_COLUMNS,
  readDocuments,
  STEM_FIELDS,
  TEXT_COLUMNS,
} from '../documents.ts';
import { formatConditions, formatWords, type Question, quoteSql, type Syntax } from '../query.ts';
import { serveEngine } from './serve.ts';

const COLUMNS = ['id', 'external_id', 'listing', ...TEXT_COLUMNS, ...NUMBER_COLUMNS] as const;
const FACETS = ['city', 'deal_type', 'property_type', 'rooms'];

const SCHEMA = `
  create table listings (id integer primary key, ${COLUMNS.slice(1).join(', ')});
  create virtual table stems using fts5 (${FIELDS.join(', ')}, content='', tokenize='ascii');
  insert into stems (stems, rank) values ('rank', 'bm25(${Object.values(STEM_FIELDS).join(', ')})')`;
const INDEXES = `
  insert into stems (stems) values ('optimize');
  create index by_city on listings (city, deal_type, price, rooms);
  create index by_price on listings (price);
  analyze`;
/** Cache of 256 MiB for each connection. */
const SETTINGS = 'pragma cache_size = -262144; pragma temp_store = memory';

const SYNTAX: Syntax = {
  and: ' AND ',
  or: ' OR ',
  near: (terms) => `NEAR(${terms.join(' ')}, 4)`,
  not: (positive, excluded) => `${positive} NOT (${excluded.join(' OR ')})`,
};

let database: DatabaseSync | undefined;
const statements = new Map<string, StatementSync>();

function getDatabase(): DatabaseSync {
  if (database === undefined) throw new Error('The database is not open');
  return database;
}

function open(folder: string): Promise<void> {
  database = new DatabaseSync(join(folder, 'listings.db'));
  database.exec(`pragma journal_mode = wal; pragma synchronous = normal; ${SETTINGS}`);
  return Promise.resolve();
}

function prepare(sql: string): StatementSync {
  const statement = statements.get(sql) ?? getDatabase().prepare(sql);
  statements.set(sql, statement);
  return statement;
}

function store(document: Document): void {
  const listing = COLUMNS.map((column) => document[column]);
  prepare(`insert into listings values (${COLUMNS.map(() => '?').join(', ')})`).run(...listing);
  const stems = FIELDS.map((field) => document[field]);
  prepare(`insert into stems (rowid, ${FIELDS.join(', ')}) values (?, ?, ?, ?)`).run(
    document.id,
    ...stems,
  );
}

serveEngine({
  open,
  async load({ folder, files }) {
    await open(folder);
    const run = (sql: string) => getDatabase().exec(sql);
    run(SCHEMA);
    run('begin');
    for await (const batch of readDocuments(files.documents, 1000)) batch.forEach(store);
    run('commit');
    run(INDEXES);
    run('pragma wal_checkpoint(truncate)');
    getDatabase().close();
  },
  search(question: Question) {
    const { kind, groups, filters, limit } = question;
    const hasWords = groups.length > 0;
    const conditions = [
      ...(hasWords ? ['stems match ?'] : []),
      ...formatConditions(filters, { equal: '=', quote: quoteSql }),
    ].join(' and ');
    const where = conditions === '' ? '' : ` where ${conditions}`;
    const from = hasWords ? 'stems join listings on listings.id = stems.rowid' : 'listings';
    const words = hasWords ? [formatWords(question, SYNTAX)] : [];
    if (kind === 'facets') {
      const selected = `with found as materialized (select ${FACETS.join(', ')} from ${from}${where})`;
      const counts = FACETS.map(
        (name) =>
          `select '${name}', ${name} as value, count(*) as count from found group by ${name}`,
      );
      return prepare(`${selected} ${counts.join(' union all ')}`).all(...words);
    }
    const order = kind === 'by price' ? 'price' : 'stems.rank';
    return prepare(`select listing from ${from}${where} order by ${order} limit ${limit}`).all(
      ...words,
    );
  },
  insert(document) {
    getDatabase().exec('begin immediate');
    store(document);
    getDatabase().exec('commit');
    return Promise.resolve();
  },
});
