import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { countErrors, findDifference } from './check.ts';
import { type Document, generateDocument } from './documents.ts';
import { type Run, runCommand } from './run-command.ts';
import { oselya, type Variant } from './variants.ts';

/** One measurement: a command and a document. */
export type Sample = Run & {
  variant: string;
  round: number;
  document: Document;
  /** The size of the text, in millions of bytes. */
  megabytes: number;
  /** Number of errors that the command reported. */
  errors: number;
  /** Wrong findings, if they are compared one by one. */
  difference?: string | undefined;
};

type Source = {
  document: Document;
  /** Path; `-` for standard input. */
  file: string;
  folder: string;
  signal: AbortSignal;
};

/** Runs a command on a document and looks at what it printed. */
export async function measureCommand(
  variant: Variant,
  { document, file, folder, signal }: Source,
): Promise<Omit<Sample, 'round'>> {
  const output = join(folder, 'output.txt');
  const isStream = file === '-';
  let size = isStream ? 0 : (await stat(file)).size;
  const args = [...variant.args(file), ...(isStream ? ['--input-format', document.format] : [])];
  const input = isStream ? counted() : undefined;
  const run = await runCommand(args, { folder, output, input, signal });
  return {
    variant: variant.name,
    document,
    megabytes: Math.round(size / 1e6),
    ...run,
    errors: await countErrors(output, variant.errorMark),
    ...(variant === oselya && { difference: await findDifference(output, document) }),
  };

  function* counted(): Generator<string> {
    for (const chunk of generateDocument(document)) {
      // Generated text is ASCII: a byte for each code unit.
      size += chunk.length;
      yield chunk;
    }
  }
}
