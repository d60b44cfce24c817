import { type Command, InvalidArgumentError } from 'commander';
import type { Context } from '../context.ts';
import { help } from '../help.ts';

/** What the API answers at most at once. Contract 4, Search. */
const MAX_LIMIT = 100;

/** `oselya search`: asks a running collector over HTTP, as any other client of it does. */
export function addSearchCommand(program: Command, { env, print }: Context): void {
  program
    .command('search')
    .description('search the listings of a running collector')
    .addHelpText(
      'after',
      help(
        'a collector that runs: COLLECTOR_URL or COLLECTOR_PORT.',
        'Where that asks for API keys, set COLLECTOR_API_KEY.',
      ),
    )
    .argument('<words...>', 'what to look for')
    .option('--similar', 'find what is near in meaning, instead of what has all the words')
    .option('--limit <n>', `how many to show, 1 to ${MAX_LIMIT}`, limit, 10)
    .option('--json', 'print the answer of the API')
    .action(
      async (
        words: string[],
        options: { similar?: boolean; limit: number; json?: boolean },
      ): Promise<void> => {
        const { loadConfig } = await import('@oselya/kit');
        const { clientConfig, collectorOf } = await import('../config.ts');
        const config = loadConfig(clientConfig, env);
        const { askCollector } = await import('../search/ask-collector.ts');
        const answer = await askCollector(
          collectorOf(config),
          options.similar ? 'similar' : 'fulltext',
          { query: words.join(' '), limit: options.limit },
        );
        const { printableJson } = await import('../terminal.ts');
        const { listResults } = await import('../search/results.ts');
        print(options.json ? printableJson(answer) : listResults(answer));
      },
    );
}

function limit(value: string): number {
  if (/^\d{1,3}$/.test(value) && Number(value) >= 1 && Number(value) <= MAX_LIMIT) {
    return Number(value);
  }
  throw new InvalidArgumentError(`It is a whole number, 1 to ${MAX_LIMIT}.`);
}
