import { existsSync } from 'node:fs';
import { ConfigError, type LintConfig, parseConfig } from '../lint/config.ts';
import { IdRegister } from '../lint/id-register.ts';
import { lintInventory } from '../lint/lint.ts';
import { dayOf, parseArguments, wholeNumber } from './arguments.ts';
import { checkFiles } from './check-files.ts';
import { CHECK_OPTIONS, CHECK_OPTIONS_HELP, checkedFiles } from './check-options.ts';
import type { Command } from './command.ts';
import { fixFiles } from './fix-files.ts';
import { knownFindings } from './known-findings.ts';
import { readText } from './read-text.ts';
import { UsageError } from './usage-error.ts';

const CONFIG_FILE = 'inventory.config.json';

const HELP = `Validates inventories as \`validate\` does, and judges their records by rules: ids that are given
twice, reviews that are long ago, public endpoints without authentication, and others. Each rule
has a page in docs/inventory/rules. FILE is as for \`validate\`.

Options:
  --config FILE                     which rules are off, how bad they are, and their options
                                    (default: ${CONFIG_FILE} where it is)
  --baseline FILE                   say nothing of findings that stand in FILE
  --update-baseline                 write what is found now into the FILE of --baseline; what it has of
                                    other files stays
  --today YYYY-MM-DD                judge reviews against this day (default: today in UTC)
  --fix                             mend what is certain in the files, then tell the rest
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
    const maxWarnings = wholeNumber('--max-warnings', 0, values['max-warnings']) ?? Infinity;
    const options = { config: await readConfig(values.config), today: dayOf(values.today) };
    const ids = new IdRegister();
    const known = await knownFindings(values.baseline, values['update-baseline'] ?? false);
    if (values.fix) await fixFiles(files, context, options);
    const { exitStatus, results } = await checkFiles(files, context, (source, more) =>
      lintInventory(source, { ...more, ...options, ids, ignores: known.ignores }),
    );
    const note = await known.end(results);
    if (note !== null) context.tell(note);
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
