import { type Command, InvalidArgumentError, Option } from 'commander';
import { addCommand, CommandError, type Context, parseNonEmpty } from '../command.ts';

/** Maximum number of results that the API returns. Contract 4, Search. */
const MAX_LIMIT = 100;

type SearchCommandOptions = {
  words?: boolean;
  similar?: boolean;
  limit: number;
  json?: boolean;
};

/** Adds `oselya search`, which searches a running collector over HTTP. */
export function addSearchCommand(program: Command, { env, print }: Context): void {
  addCommand(program, 'search', {
    description: 'search the listings of a running collector',
    needs: 'a running collector: COLLECTOR_URL or COLLECTOR_PORT.',
    note: 'If it requires API keys, set COLLECTOR_API_KEY.',
  })
    .argument('<words...>', 'the words to find', (value: string, words: string[] | undefined) => [
      ...(words ?? []),
      parseNonEmpty(value),
    ])
    .option('--words', 'find only listings with all the words as they are written')
    .addOption(new Option('--similar', 'find listings near in meaning only').conflicts('words'))
    .option('--limit <n>', `how many to show, 1 to ${MAX_LIMIT}`, parseLimit, 10)
    .option('--json', 'print the answer of the API')
    .action(async (words: string[], options: SearchCommandOptions) => {
      const { limit, json } = options;
      const { loadConfig } = await import('@oselya/kit');
      const { clientConfig, resolveCollector } = await import('../config.ts');
      const { createNotCollectorError, describeRejection, requestCollector } =
        await import('../http.ts');
      const { formatResults, isResults } = await import('../search-results.ts');
      const { formatJson } = await import('@oselya/inventory/text');
      const collector = resolveCollector(loadConfig(clientConfig, env));
      const path = `/api/v1/search/${selectKind(options)}`;
      const body = { query: words.join(' '), limit };
      const response = await requestCollector(collector, path, { method: 'POST', body });
      if (response.status >= 400) {
        const rejectionOptions = { subject: 'the search', scope: 'search' };
        throw new CommandError(describeRejection(response, rejectionOptions));
      }
      if (response.status !== 200 || !isResults(response.body)) {
        throw createNotCollectorError(collector.url);
      }
      print(json ? formatJson(response.body, 2) : await formatResults(response.body));
    });
}

function selectKind({ words, similar }: SearchCommandOptions): string {
  if (words) return 'fulltext';
  return similar ? 'similar' : 'hybrid';
}

function parseLimit(value: string): number {
  const limit = /^\d{1,3}$/.test(value) ? Number(value) : 0;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new InvalidArgumentError(`It must be an integer from 1 to ${MAX_LIMIT}.`);
}
