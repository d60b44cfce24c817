import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Writer of raw results: one JSON object per line, distinguished by `kind`. */
export type Results = {
  file: string;
  keep(kind: string, values: Readonly<Record<string, unknown>>): Promise<void>;
  /** Writes the Markdown report to the file with the same name and the suffix `.md`. */
  writeTable(text: string): Promise<void>;
};

const FOLDER = join(import.meta.dirname, '..', 'results');

/**
 * Opens a file for raw results. Each line is written immediately, so an interrupted run keeps its results.
 * @param file Path of the file, which is replaced; if undefined, a new file in bench/results.
 */
export async function openResults(suite: string, file: string | undefined): Promise<Results> {
  const path =
    file ?? join(FOLDER, `${suite}-${new Date().toISOString().replaceAll(':', '-')}.jsonl`);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, '');
  return {
    file: path,
    keep: (kind, values) => appendFile(path, `${JSON.stringify({ kind, ...values })}\n`),
    writeTable: (text) => writeFile(path.replace(/(\.jsonl)?$/, '.md'), text),
  };
}
