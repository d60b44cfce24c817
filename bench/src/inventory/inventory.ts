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

/** In files, for all commands. */
const FILES: readonly Document[] = [
  { records: MILLION, faulty: 0, format: 'json' },
  { records: MILLION / 10, faulty: 0, format: 'json' },
  { records: MILLION, faulty: 0.01, format: 'json' },
  { records: MILLION, faulty: 1, format: 'json' },
];

/** Through standard input, and so never on the disk. None of them fits into one string of JavaScript. */
const STREAMS: readonly Document[] = [
  { records: 2 * MILLION, faulty: 0.01, format: 'json' },
  { records: 10 * MILLION, faulty: 0, format: 'jsonl' },
];

/** Measures the validator: time, memory and errors, beside JSON.parse and its peers. */
export async function measureInventory(context: Context): Promise<Report> {
  const { options, results, logProgress, signal } = context;
  await using scope = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  scope.defer(() => rm(folder, { recursive: true, force: true }));
  const samples: Sample[] = [];
  const measure = async (variant: Variant, document: Document, file: string, round = 1) => {
    const measured = await measureCommand(variant, { document, file, folder, signal });
    const sample = { ...measured, round };
    await results.keep('sample', sample);
    samples.push(sample);
    const { wallMs, errors, megabytes } = sample;
    logProgress(`${variant.name}: ${megabytes} MB, ${errors} errors, ${Math.round(wallMs)} ms`);
  };

  const sized = (document: Document) => (options.smoke ? thousandth(document) : document);
  for (const document of FILES.map(sized)) {
    const file = join(folder, 'inventory.json');
    await writeFile(file, generateDocument(document));
    for (let round = 1; round <= options.rounds; round += 1) {
      for (const variant of orderForRound(round, [jsonParse, oselya, lint])) {
        await measure(variant, document, file, round);
      }
    }
    // Once: with errors in a file they take minutes, or all the memory there is.
    for (const peer of peers) await measure(peer, document, file);
  }
  for (const document of STREAMS.map(sized)) await measure(oselya, document, '-');
  return formatReport(samples, options);
}

function thousandth(document: Document): Document {
  return { ...document, records: document.records / 1000 };
}
