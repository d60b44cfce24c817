import type { Command } from 'commander';
import { addCommand, type Context, parsePositiveInteger } from '../command.ts';
import type { EvaluateOptions } from '../evaluate/evaluate.ts';

/** Adds `oselya evaluate`, which compares the extractions of the configured model with those of the mock. */
export function addEvaluateCommand(program: Command, context: Context): void {
  addCommand(program, 'evaluate', {
    description: 'measure how well the configured model reads listings, compared with the mock',
    needs: 'the model of the MODEL_* variables, and no database: nothing is stored.',
    note: 'docs/models.md explains how to set up a model and how to read the results.',
  })
    .argument('[file]', 'golden texts of your own; samples/README.md has the format')
    .option('--limit <n>', 'number of texts to read', parsePositiveInteger)
    .option('--verbose', 'print every value that is not as it should be')
    .option('--json', 'print the results as JSON')
    .option('--compare <run>', 'compare with an earlier run, saved with --json')
    .action(async (file: string | undefined, options: EvaluateOptions) => {
      const { evaluate } = await import('../evaluate/evaluate.ts');
      await evaluate(file, options, context);
    });
}
