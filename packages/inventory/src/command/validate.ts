import { validateInventory } from '../check/validate.ts';
import { parseArguments } from './arguments.ts';
import { checkFiles } from './check-files.ts';
import { CHECK_OPTIONS, CHECK_OPTIONS_HELP, checkedFiles } from './check-options.ts';
import type { Command } from './command.ts';
import { UsageError } from './usage-error.ts';

const HELP = `Checks endpoint inventories against endpoint.schema.json and reports every error with its line,
column, JSON pointer and record id. A FILE is one JSON array, one record a line when its name ends in
.jsonl, or one list of YAML when it ends in .yaml or .yml; it may be packed with gzip, be a pattern such
as hosts/*.json, or - for standard input.

Options:
${CHECK_OPTIONS_HELP}
  --watch                           check again whenever a FILE changes; what a pattern matches is
                                    looked for once, at the beginning
  --help                            print this text

Exit status: 0 valid, 1 invalid, 2 unreadable or wrong use.
`;

/** `oselya inventory validate` (Contract 5). */
export const validate: Command = {
  help: HELP,
  async run(argv, context) {
    const { values, positionals } = parseArguments('validate', argv, {
      ...CHECK_OPTIONS,
      watch: { type: 'boolean' },
    });
    const files = await checkedFiles(positionals, values);
    const check = async () => (await checkFiles(files, context, validateInventory)).exitStatus;
    if (!values.watch) return check();
    if (files.format === 'json' || files.format === 'sarif') {
      throw new UsageError(
        `--watch prints findings again and again, and ${files.format} is one document; choose text or github`,
      );
    }
    const { watchFiles } = await import('./watch-files.ts');
    return watchFiles(files.files, context.io, check);
  },
};
