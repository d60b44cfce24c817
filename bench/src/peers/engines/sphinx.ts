import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
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
  type Engine,
  findCommandVersion,
  findPort,
  measureFolder,
  readRows,
  runCommand,
  startServer,
} from '../engine.ts';
import { findPackageVersion, loadPackage } from '../packages.ts';
import { formatConditions, formatWords, quoteSql, type Syntax } from '../query.ts';

type Mysql = {
  createConnection(settings: object): Promise<{
    query(statement: string): Promise<[unknown]>;
    end(): Promise<void>;
  }>;
};

const TEXTS = ['external_id', ...TEXT_COLUMNS, 'listing'] as const;
const INDEX = 'listings';

const SYNTAX: Syntax = {
  and: ' ',
  or: ' | ',
  near: (terms) => `"${terms.join(' ')}"~4`,
  not: (positive, excluded) => `${positive} ${excluded.map((term) => `-${term}`).join(' ')}`,
};

/** Sphinx: a plain index built by its indexer and attached to a real-time index, with hits in its attributes. */
export const engine: Engine = {
  kinds: ['words', 'filtered', 'by price', 'facets'],
  async findVersion() {
    const version = await findCommandVersion('searchd', ['--help'], /Sphinx ([\d.]+)/);
    return (await findPackageVersion('mysql2')) && version;
  },
  async load({ folder, files, signal }) {
    const lines = join(folder, 'documents.tsv');
    const output = createWriteStream(lines);
    for await (const batch of readDocuments(files.documents, 1000)) {
      if (!output.write(batch.map(formatLine).join(''))) await once(output, 'drain');
    }
    output.end();
    await once(output, 'finish');
    await mkdir(join(folder, 'binlog'));
    const config = await writeConfig(folder, 0);
    await runCommand('indexer', ['--config', config, 'loaded'], { signal });
    await writeFile(lines, '');
    await using server = await start(folder, signal);
    await runStatement(server.urls[0] ?? '', `attach index loaded to rtindex ${INDEX}`);
  },
  start,
  prepare(question) {
    const { kind, groups, filters, limit } = question;
    const conditions = [
      ...(groups.length > 0 ? [`match('${formatWords(question, SYNTAX)}')`] : []),
      ...formatConditions(filters, { equal: '=', quote: quoteSql }),
    ].join(' and ');
    const where = conditions === '' ? '' : ` where ${conditions}`;
    const from = `select listing from ${INDEX}${where}`;
    const weights = Object.entries(STEM_FIELDS).map(([field, weight]) => `${field}=${weight}`);
    const options = `option field_weights=(${weights.join(',')}), ranker=proximity_bm25`;
    if (kind === 'by price') return { path: '', body: `${from} order by price asc limit ${limit}` };
    if (kind !== 'facets') return { path: '', body: `${from} limit ${limit} ${options}` };
    const facets = ['city', 'deal_type', 'property_type', 'rooms'].map(
      (column) => ` facet ${column}`,
    );
    return { path: '', body: `select id from ${INDEX}${where} limit 1${facets.join('')}` };
  },
  async connect(url) {
    const { hostname, port } = new URL(url);
    const mysql = await loadPackage<Mysql>('mysql2', '/promise');
    const connection = await mysql.createConnection({ host: hostname, port: Number(port) });
    return {
      send: async ({ body }) => (await connection.query(body))[0],
      close: () => connection.end(),
    };
  },
  readHits: readRows,
};

async function start(folder: string, signal: AbortSignal): ReturnType<Engine['start']> {
  const port = await findPort();
  const url = `mysql://127.0.0.1:${port}`;
  const config = await writeConfig(folder, port);
  const server = await startServer('searchd', ['--config', config, '--nodetach'], {
    signal,
    isReady: () => runStatement(url, 'show tables'),
  });
  return {
    urls: [url],
    processIds: () => Promise.resolve([server.pid]),
    measureDisk: () => measureFolder(folder),
    async insert(document) {
      const columns = ['id', ...FIELDS, ...TEXTS, ...NUMBER_COLUMNS] as const;
      const values = columns.map((column) => formatValue(document[column]));
      const statement = `insert into ${INDEX} (${columns.join(', ')}) values (${values.join(', ')})`;
      await runStatement(url, statement);
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function runStatement(url: string, statement: string): Promise<void> {
  const client = await engine.connect(url);
  try {
    await client.send({ path: '', body: statement });
  } finally {
    await client.close();
  }
}

const formatValue = (value: string | number) =>
  typeof value === 'number' ? String(value) : `'${value.replaceAll(/['\\]/g, String.raw`\$&`)}'`;

/** Returns a document as a line of tab-separated values: the ID, fields, texts and numbers. */
const formatLine = (document: Document): string =>
  `${['id', ...FIELDS, ...TEXTS, ...NUMBER_COLUMNS]
    .map((column) => String(document[column as keyof Document]).replaceAll(/[\t\n]/g, ' '))
    .join('\t')}\n`;

const formatColumns = (prefix: string) => [
  ...FIELDS.map((name) => `${prefix}_field = ${name}`),
  ...TEXTS.map((name) => `${prefix}_attr_string = ${name}`),
  ...NUMBER_COLUMNS.map((name) => `${prefix}_attr_float = ${name}`),
];

async function writeConfig(folder: string, port: number): Promise<string> {
  const sections = {
    'source documents': [
      'type = tsvpipe',
      `tsvpipe_command = cat ${folder}/documents.tsv`,
      ...formatColumns('tsvpipe'),
    ],
    'index loaded': ['source = documents', `path = ${folder}/loaded`],
    [`index ${INDEX}`]: ['type = rt', `path = ${folder}/${INDEX}`, ...formatColumns('rt')],
    indexer: ['mem_limit = 1024M'],
    searchd: [
      `listen = 127.0.0.1:${port}:mysql41`,
      `pid_file = ${folder}/searchd.pid`,
      `log = ${folder}/searchd.log`,
      `binlog_path = ${folder}/binlog`,
      'workers = threads',
      'max_packet_size = 64M',
    ],
  };
  const file = join(folder, 'sphinx.conf');
  const texts = Object.entries(sections).map(
    ([name, settings]) => `${name}\n{\n${settings.join('\n')}\n}\n`,
  );
  await writeFile(file, texts.join(''));
  return file;
}
