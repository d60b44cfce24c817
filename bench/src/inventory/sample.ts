import { stat, open } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Document, generateDocument, type Expected, expectedFindings } from './documents.ts';
import { type Run, runCommand } from './run-command.ts';
import { oselya, type Variant } from './variants.ts';

export type Sample = Run & {
  variant: string;
  round: number;
  document: Document;
  /** Size of the document. */
  megabytes: number;
  /** Number of errors that the command reported. */
  errors: number;
  /** First wrong finding or record count; undefined if there is none or the findings were not compared. */
  difference?: string | undefined;
};

type Source = {
  document: Document;
  /** Path of the document; `-` for standard input. */
  file: string;
  folder: string;
  signal: AbortSignal;
};

/** Runs a command on a document and counts its errors. Compares the findings of `validate` with the expected ones. */
export async function measureCommand(
  variant: Variant,
  { document, file, folder, signal }: Source,
): Promise<Omit<Sample, 'round'>> {
  const output = join(folder, 'output.txt');
  const isStream = file === '-';
  let size = isStream ? 0 : (await stat(file)).size;
  const args = [...variant.args(file), ...(isStream ? ['--input-format', document.format] : [])];
  const input = isStream ? countBytes() : undefined;
  const run = await runCommand(args, { folder, output, input, signal });
  return {
    variant: variant.name,
    document,
    megabytes: Math.round(size / 1e6),
    ...run,
    errors: await countErrors(output, variant.errorMark),
    ...(variant === oselya && { difference: await findDifference(output, document) }),
  };

  function* countBytes(): Generator<string> {
    for (const chunk of generateDocument(document)) {
      // Generated text is ASCII, so a character is a byte.
      size += chunk.length;
      yield chunk;
    }
  }
}

/** Returns the number of output lines that contain the command's error mark; 0 if the command has no mark. */
export async function countErrors(output: string, mark: string | undefined): Promise<number> {
  if (mark === undefined) return 0;
  let count = 0;
  await using file = await open(output);
  for await (const line of file.readLines()) if (line.includes(mark)) count += 1;
  return count;
}

/**
 * Compares the output of `oselya inventory validate --format json` with the expected findings of the document. Checks
 * the code, pointer, line and column of each finding, in order, and the number of records.
 * @returns The first difference; undefined if there is none.
 */
export async function findDifference(
  output: string,
  document: Document,
): Promise<string | undefined> {
  const expected = expectedFindings(document);
  let files: { records: number; isComplete: boolean } | undefined;
  await using file = await open(output);
  for await (const line of file.readLines()) {
    if (!line.startsWith('{"file"')) continue;
    const entry = JSON.parse(line.replace(/,$/, ''));
    if ('status' in entry) {
      files = entry;
      continue;
    }
    const finding = readLocation(entry);
    const { value } = expected.next();
    if (!isDeepStrictEqual(finding, value)) return formatDifference(value ?? undefined, finding);
  }
  const { value: missing } = expected.next();
  if (missing !== undefined) return formatDifference(missing, undefined);
  if (files?.isComplete && files.records === document.records) return undefined;
  return `read ${files?.records} of ${document.records} records`;
}

function readLocation({ code, pointer, line, column }: Expected): Expected {
  return { code, pointer, line, column };
}

function formatDifference(expected: Expected | undefined, finding: Expected | undefined): string {
  return `expected ${JSON.stringify(expected)}, found ${JSON.stringify(finding)}`;
}
