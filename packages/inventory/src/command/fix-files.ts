import { readFile, rename, stat, writeFile } from 'node:fs/promises';
import type { Finding } from '../finding.ts';
import { applyFixes } from '../fix/apply-fixes.ts';
import { lintInventory, type LintOptions } from '../lint/lint.ts';
import { count } from '../output/wording.ts';
import type { CheckedFiles } from './check-files.ts';
import type { Context } from './command.ts';
import { readFailure } from './read-failure.ts';
import { UsageError } from './usage-error.ts';

/**
 * Mends what is certain in files, each in memory as a whole. A file is replaced at once, so that it is the
 * old one or the new one whatever happens.
 * @throws UsageError for standard input and packed files. What cannot be read is left to the check.
 */
export async function fixFiles(
  { files, inputFormat }: CheckedFiles,
  { tell }: Context,
  options: Pick<LintOptions, 'config' | 'today'>,
): Promise<void> {
  const cannot = files.find((file) => file === '-' || file.endsWith('.gz'));
  if (cannot !== undefined) {
    throw new UsageError(
      `--fix writes files; ${cannot === '-' ? 'standard input' : cannot} is none`,
    );
  }
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch((error: unknown) => {
      if (readFailure(error, file) === undefined) throw error;
      return null;
    });
    if (text === null) continue;
    const findings: Finding[] = [];
    let isText = true;
    const format = inputFormat && { format: inputFormat };
    for await (const finding of lintInventory({ path: file }, { ...options, ...format })) {
      if (finding.fix !== undefined) findings.push(finding);
      if (finding.code.startsWith('encoding/utf')) isText = false;
    }
    // What is not UTF-8 would be lost in writing.
    if (!isText) continue;
    const mended = applyFixes(text, findings);
    if (mended.applied === 0) continue;
    await replace(file, mended.text);
    const what = count(mended.applied, 'finding');
    tell(`${what} mended in ${file}`);
  }
}

async function replace(file: string, text: string): Promise<void> {
  const { mode } = await stat(file);
  const next = `${file}.${process.pid}.tmp`;
  await writeFile(next, text, { mode, flag: 'wx' });
  await rename(next, file);
}
