import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { orderForRound } from '../load/rounds.ts';
import type { Context, Report } from '../suite.ts';
import { type Document, generateDocument } from './documents.ts';
import { formatReport } from './report.ts';
import { measureCommand, type Sample } from './sample.ts';
import { jsonParse, lint, oselya, peers, type Variant } from './variants.ts';

const MILLION = 1_000_000;

/** Documents that all commands read from files. */
const FILES: readonly Document[] = [
  { records: MILLION, faulty: 0, format: 'json' },
  { records: MILLION / 10, faulty: 0, format: 'json' },
  { records: MILLION, faulty: 0.01, format: 'json' },
  { records: MILLION, faulty: 1, format: 'json' },
];

/** Documents to read from standard input. They exceed the maximum length of a JavaScript string. */
const STREAMS: readonly Document[] = [
  { records: 2 * MILLION, faulty: 0.01, format: 'json' },
  { records: 10 * MILLION, faulty: 0, format: 'jsonl' },
];

/** Compares the validator and the linter with JSON.parse and their peers in time, memory and reported errors. */
export async function measureInventory(context: Context): Promise<Report> {
  const { options, results, logProgress, signal } = context;
  await using scope = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  scope.defer(() => rm(folder, { recursive: true, force: true }));
  const samples: Sample[] = [];
  const measure = async (variant: Variant, document: Document, file: string, round = 1) => {
    const measurement = await measureCommand(variant, { document, file, folder, signal });
    const sample = { ...measurement, round };
    await results.keep('sample', sample);
    samples.push(sample);
    const { wallMs, errors, megabytes } = sample;
    logProgress(`${variant.name}: ${megabytes} MB, ${errors} errors, ${Math.round(wallMs)} ms`);
  };

  const adaptSize = (document: Document) => (options.isSmokeRun ? shrink(document) : document);
  for (const document of FILES.map(adaptSize)) {
    const file = join(folder, 'inventory.json');
    await writeFile(file, generateDocument(document));
    for (let round = 1; round <= options.rounds; round += 1) {
      for (const variant of orderForRound(round, [jsonParse, oselya, lint])) {
        await measure(variant, document, file, round);
      }
    }
    // Peers run only once, because a file with errors can take them minutes or exhaust their memory.
    for (const peer of peers) await measure(peer, document, file);
  }
  for (const document of STREAMS.map(adaptSize)) await measure(oselya, document, '-');
  return formatReport(samples, options);
}

function shrink(document: Document): Document {
  return { ...document, records: document.records / 1000 };
}
