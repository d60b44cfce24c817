import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type Document,
  FIELDS,
  NUMBER_COLUMNS,
  readDocuments,
  STEM_FIELDS,
  TEXT_COLUMNS,
} from '../documents.ts';
import {
  connectHttp,
  type Engine,
  findCommandVersion,
  findPort,
  measureFolder,
  readRows,
  runCommand,
  startServer,
} from '../engine.ts';
import { formatConditions, formatWords, type Syntax } from '../query.ts';

const FACETS = 'city,deal_type,property_type,rooms';

const SYNTAX: Syntax = {
  and: ' ',
  or: ' OR ',
  near: (terms) => `*N4"${terms.join(' ')}"`,
  not: (positive, excluded) => `${positive} ${excluded.map((term) => `- ${term}`).join(' ')}`,
};

const TABLES = [
  'table_create Terms TABLE_PAT_KEY ShortText --default_tokenizer TokenDelimit',
  'table_create Listings TABLE_HASH_KEY ShortText',
  'column_create Listings listing COLUMN_SCALAR Text',
  ...FIELDS.map((name) => `column_create Listings ${name} COLUMN_SCALAR Text`),
  // A column of references to a table of its values has a small index and counts fast.
  ...TEXT_COLUMNS.flatMap((name) => [
    `table_create ${name}s TABLE_HASH_KEY ShortText`,
    `column_create Listings ${name} COLUMN_SCALAR ${name}s`,
  ]),
  ...NUMBER_COLUMNS.flatMap((name) => [
    `table_create ${name}s TABLE_PAT_KEY ${name === 'rooms' ? 'Int32' : 'Float'}`,
    `column_create Listings ${name} COLUMN_SCALAR ${name === 'rooms' ? 'Int32' : 'Float'}`,
  ]),
];
/** Indexes of loaded tables are built at once, which is faster. */
const INDEXES = [
  `column_create Terms listings COLUMN_INDEX|WITH_POSITION|WITH_SECTION Listings ${FIELDS.join(',')}`,
  ...[...TEXT_COLUMNS, ...NUMBER_COLUMNS].map(
    (name) => `column_create ${name}s listings COLUMN_INDEX Listings ${name}`,
  ),
];

/** Groonga: its own HTTP server, with an index on each column and hits in its columns. */
export const engine: Engine = {
  kinds: ['words', 'filtered', 'by price', 'facets'],
  findVersion: () => findCommandVersion('groonga', ['--version'], /Groonga ([\d.]+)/),
  async load({ folder, files, signal }) {
    const commands = join(folder, 'commands.grn');
    const output = createWriteStream(commands);
    output.write(`${TABLES.join('\n')}\nload --table Listings\n[\n`);
    let separator = '';
    for await (const batch of readDocuments(files.documents, 1000)) {
      if (!output.write(separator + batch.map(formatRecord).join(',\n')))
        await once(output, 'drain');
      separator = ',\n';
    }
    output.end(`\n]\n${INDEXES.join('\n')}\n`);
    await once(output, 'finish');
    const log = join(folder, 'groonga.log');
    const flags = ['--log-path', log, '--file', commands, '-n', join(folder, 'db')];
    await runCommand('groonga', flags, { signal });
    await rm(commands);
  },
  async start(folder, signal) {
    const port = await findPort();
    const url = `http://127.0.0.1:${port}`;
    const flags = `-s --protocol http --bind-address 127.0.0.1 --port ${port} --cache-limit 0`;
    const log = join(folder, 'groonga.log');
    const args = [...flags.split(' '), '--log-path', log, join(folder, 'db')];
    const isReady = () => send(url, { path: '/d/status', body: '' });
    const server = await startServer('groonga', args, { signal, isReady });
    return {
      urls: [url],
      processIds: () => Promise.resolve([server.pid]),
      async insert(document) {
        await send(url, { path: '/d/load?table=Listings', body: `[${formatRecord(document)}]` });
      },
      measureDisk: () => measureFolder(folder),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  },
  prepare(question) {
    const { kind, groups, filters, limit } = question;
    const conditions = formatConditions(filters, { equal: '==', quote: JSON.stringify });
    const fields = Object.entries(STEM_FIELDS).map(([name, weight]) => `${name} * ${weight}`);
    const isCount = kind === 'facets';
    const parameters = new URLSearchParams({
      table: 'Listings',
      output_columns: 'listing',
      sort_keys: kind === 'by price' ? 'price' : '-_score',
      limit: String(isCount ? 0 : limit),
      ...(groups.length > 0 && {
        match_columns: fields.join(' || '),
        query: formatWords(question, SYNTAX),
      }),
      ...(conditions.length > 0 && { filter: conditions.join(' && ') }),
      ...(isCount && { drilldown: FACETS }),
    });
    return { path: `/d/select?${parameters.toString()}`, body: '' };
  },
  connect: connectHttp,
  readHits(response) {
    const [, [[, , ...rows]]] = JSON.parse(String(response)) as [unknown, [[...unknown[]]]];
    return readRows((rows as [string][]).map(([listing]) => ({ listing })));
  },
};

async function send(url: string, request: { path: string; body: string }): Promise<void> {
  const client = await connectHttp(url);
  try {
    await client.send(request);
  } finally {
    await client.close();
  }
}

function formatRecord({ id: _id, external_id, vector: _vector, ...document }: Document): string {
  return JSON.stringify({ _key: external_id, ...document });
}
