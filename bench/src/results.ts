import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Writer of raw results: one JSON object per line, distinguished by `kind`. */
export type Results = {
  file: string;
  keep(kind: string, facts: Readonly<Record<string, unknown>>): Promise<void>;
  /** Writes the table for readers beside them, under the same name with `.md`. */
  writeTable(text: string): Promise<void>;
};

const FOLDER = join(import.meta.dirname, '..', 'results');

/**
 * Opens a file for raw figures. Each line is written when it is known, so a run that is interrupted
 * keeps what it measured.
 * @param file An existing one is replaced; without one it is a new file in bench/results.
 */
export async function openResults(suite: string, file: string | undefined): Promise<Results> {
  const path =
    file ?? join(FOLDER, `${suite}-${new Date().toISOString().replaceAll(':', '-')}.jsonl`);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, '');
  return {
    file: path,
    keep: (kind, facts) => appendFile(path, `${JSON.stringify({ kind, ...facts })}\n`),
    writeTable: (text) => writeFile(path.replace(/(\.jsonl)?$/, '.md'), text),
  };
}
