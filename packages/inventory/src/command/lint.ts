import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Finding } from '../finding.ts';
import { MAX_BASELINE_BYTES } from '../limits.ts';
import { Baseline, BaselineError, parseBaseline } from '../lint/baseline.ts';
import { ConfigError, type LintConfig, lintInventory, parseConfig } from '../lint/lint.ts';
import type { FileResult } from '../output/reporters.ts';
import { count } from '../text.ts';
import { type Command, dayOf, parseArguments, UsageError, wholeNumber } from './command.ts';
import { readText, writeFailure } from './files.ts';
import { fixFiles, replaceFile } from './fix.ts';
import { CHECK_OPTIONS, CHECK_OPTIONS_HELP, checkedFiles, checkFiles } from './validate.ts';

const CONFIG_FILE = 'inventory.config.json';

const HELP = `Validates inventories as \`validate\` does, and judges their records by rules: repeated ids, old
reviews, public endpoints without authentication, and others. Each rule has a page in
docs/inventory/rules. FILE is as for \`validate\`.

Options:
  --config FILE                     which rules are off, their severities and options
                                    (default: ${CONFIG_FILE}, if it exists)
  --baseline FILE                   hide the findings that are listed in FILE
  --update-baseline                 write the current findings into the FILE of --baseline; its findings
                                    of other files stay
  --today YYYY-MM-DD                judge reviews against this day (default: today in UTC)
  --fix                             fix what is unambiguous in the files, then report the rest
  --max-warnings N                  fail when there are more than N warnings
${CHECK_OPTIONS_HELP}
  --help                            print this text

Exit status: 0 no errors, 1 errors or too many warnings, 2 unreadable or wrong use.
`;

/** `oselya inventory lint` (Contract 5). */
export const lint: Command = {
  help: HELP,
  async run(argv, context) {
    const { values, positionals } = parseArguments('lint', argv, {
      ...CHECK_OPTIONS,
      config: { type: 'string' },
      baseline: { type: 'string' },
      'update-baseline': { type: 'boolean' },
      today: { type: 'string' },
      'max-warnings': { type: 'string' },
      fix: { type: 'boolean' },
    });
    const files = await checkedFiles(positionals, values);
    const maxWarnings = wholeNumber('--max-warnings', values['max-warnings']) ?? Infinity;
    const options = { config: await readConfig(values.config), today: dayOf(values.today) };
    const baseline = await openBaseline(values.baseline, values['update-baseline'] ?? false);
    if (values.fix) await fixFiles(files, context, options);
    const ids = new Map();
    const { exitStatus, results } = await checkFiles(files, context, (source, more) =>
      lintInventory(source, { ...more, ...options, ids, ignores: baseline.ignores }),
    );
    const note = await baseline.end(results);
    if (note !== null) context.log(note);
    const warnings = results.reduce((sum, result) => sum + result.warnings, 0);
    return warnings > maxWarnings ? Math.max(1, exitStatus) : exitStatus;
  },
};

async function readConfig(given: string | undefined): Promise<LintConfig> {
  if (given === undefined && !existsSync(CONFIG_FILE)) return {};
  const file = given ?? CONFIG_FILE;
  const text = await readText(file);
  try {
    return parseConfig(text, file);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new UsageError(error.message, { cause: error });
  }
}

/** The findings to hide, and a note after the last file. */
type KnownFindings = {
  ignores: (finding: Finding) => boolean;
  end(results: readonly FileResult[]): Promise<string | null>;
};

/** @throws UsageError when the file cannot be read, is no baseline, or none is given for an update. */
async function openBaseline(file: string | undefined, isUpdate: boolean): Promise<KnownFindings> {
  if (file === undefined) {
    if (!isUpdate) return { ignores: () => false, end: () => Promise.resolve(null) };
    throw new UsageError('--update-baseline needs --baseline FILE');
  }
  const folder = dirname(file);
  const known = isUpdate && !existsSync(file) ? new Baseline(folder) : await readBaseline(file);
  if (!isUpdate) {
    return {
      ignores: (finding) => known.has(finding),
      end(results) {
        const gone = known.countGone(results.filter(isRead).map((result) => result.file));
        const note = `${count(gone, 'finding')} of ${file} not found any more; remove with --update-baseline`;
        return Promise.resolve(gone === 0 ? null : note);
      },
    };
  }
  const found = new Baseline(folder);
  return {
    ignores: (finding) => found.add(finding),
    async end(results) {
      // Findings after the end of the reading would be new next time.
      const unread = results.find((result) => !isRead(result));
      if (unread !== undefined) {
        return `${file} was not changed, as ${unread.file} was not read to its end`;
      }
      const names = results.map((result) => result.file);
      known.replace(names, found);
      await replaceFile(file, known.toString()).catch((error: unknown) => {
        throw writeFailure(error, file);
      });
      const errors = results.reduce((sum, result) => sum + result.errors, 0);
      const rest =
        errors === 0
          ? ''
          : `; ${count(errors, 'error')} cannot be hidden: correct what is reported`;
      return `${count(found.size, 'finding')} written to ${file}${rest}`;
    },
  };
}

async function readBaseline(file: string): Promise<Baseline> {
  const text = await readText(file, {
    maxBytes: MAX_BASELINE_BYTES,
    advice: 'use it for fewer files, or fix the most frequent findings',
  });
  try {
    return parseBaseline(text, file);
  } catch (error) {
    if (!(error instanceof BaselineError)) throw error;
    throw new UsageError(error.message, { cause: error });
  }
}

function isRead({ isComplete, status }: FileResult): boolean {
  return isComplete && status !== 'unreadable';
}
