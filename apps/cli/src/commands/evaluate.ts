import type { Command } from 'commander';
import { parseWholeNumber } from '../command.ts';
import type { Context } from '../command.ts';
import { formatHelp } from '../command.ts';

type Options = { limit?: number; json?: boolean; verbose?: boolean };

/** Adds `oselya evaluate`, which measures the extractions of the configured model and of the mock. */
export function addEvaluateCommand(program: Command, context: Context): void {
  program
    .command('evaluate')
    .description('measure how well the configured model reads listings, beside the mock')
    .addHelpText(
      'after',
      formatHelp(
        'the model of MODEL_MODE and the variables beside it, and no database: nothing is stored.',
        'How to set a model up, and how to read the figures, is in docs/models.md.',
      ),
    )
    .argument('[file]', 'golden texts of your own; samples/README.md has the format')
    .option('--limit <n>', 'number of texts to read', parseWholeNumber)
    .option('--verbose', 'print every value that is not as it should be')
    .option('--json', 'print the figures as JSON')
    .action(async (file: string | undefined, options: Options) => {
      const { evaluate } = await import('../evaluate/evaluate.ts');
      await evaluate({ file, ...options }, context);
    });
}
