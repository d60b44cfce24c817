import { diffInventories, RepeatedIdError } from '../diff/diff.ts';
import { DIFF_FORMATS, formatDiff } from '../diff/formats.ts';
import { choice, parseArguments } from './arguments.ts';
import type { Command } from './command.ts';
import { oneFile } from './input-files.ts';
import { INPUT_FORMAT_OPTION, inputFormatOf } from './input-format.ts';
import { readInput } from './read-input.ts';
import { UsageError } from './usage-error.ts';

const HELP = `Compares two inventories by the ids of their records: what changed, with endpoints that more people
can reach than before first, what was added, and what was removed. OLD and NEW are as FILE is for
\`validate\`; one of them may be - for standard input.

Options:
  --format text|json|md             how differences are printed (default: text)
  --fail-on widened|any             exit with 1 when an exposure was widened, an added endpoint is
                                    public, or (any) anything differs
  --input-format json|jsonl|yaml    how both are read, whatever their names
  --help                            print this text

Exit status: 0 compared, 1 what --fail-on says, 2 unreadable, invalid or wrong use.
`;

/** `oselya inventory diff` (Contract 5). */
export const diff: Command = {
  help: HELP,
  async run(argv, { io, out }) {
    const { values, positionals } = parseArguments('diff', argv, {
      format: { type: 'string' },
      'fail-on': { type: 'string' },
      ...INPUT_FORMAT_OPTION,
    });
    const [older, newer, ...more] = positionals;
    if (older === undefined || newer === undefined || more.length > 0) {
      throw new UsageError('two files are compared: give OLD and NEW');
    }
    if (older === '-' && newer === '-') {
      throw new UsageError('standard input can be read once; give - once');
    }
    const format = choice('--format', DIFF_FORMATS, values.format) ?? 'text';
    const failOn = choice('--fail-on', ['widened', 'any'], values['fail-on']);
    const inputFormat = inputFormatOf(values);
    const read = async (arg: string) =>
      readInput(await oneFile([arg], 'compared on each side'), { io, format: inputFormat });
    const found = await diffInventories(await read(older), await read(newer)).catch(
      (error: unknown) => {
        throw error instanceof RepeatedIdError
          ? new UsageError(error.message, { see: 'lint', cause: error })
          : error;
      },
    );
    await out.writeAll(formatDiff(found, format));
    const { changed, added, removed } = found;
    const isWider =
      changed.some(({ isWidened }) => isWidened) ||
      added.some(({ exposure }) => exposure === 'public');
    const isOther = changed.length + added.length + removed.length > 0;
    return (failOn === 'widened' && isWider) || (failOn === 'any' && isOther) ? 1 : 0;
  },
};
