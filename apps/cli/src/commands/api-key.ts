import type { createApiKeyStore, SCOPES as CollectorScopes, Tables } from '@oselya/collector';
import { type Command, Option } from 'commander';
import {
  addCommand,
  CommandError,
  type Context,
  openDatabase,
  parseNonEmpty,
  parseSourceSlug,
} from '../command.ts';

// Copied from the collector, so `--help` does not load the collector. The compiler compares the copies.
const SCOPES: typeof CollectorScopes = ['ingest', 'search', 'on_behalf', 'admin'];

type CreateOptions = { scope: (typeof SCOPES)[number][]; source?: string[] };

/** Adds `oselya api-key create|list|revoke`. Contract 1. */
export function addApiKeyCommand(program: Command, context: Context): void {
  const { print, stderr } = context;
  const apiKey = addCommand(program, 'api-key', {
    description: "manage the collector's API keys",
    needs: 'the database of the collector: DATABASE_URL or DATA_DIR.',
    note: 'The collector requires keys with COLLECTOR_AUTH=required.',
  }).helpCommand(false);

  apiKey
    .command('create')
    .description('create a key and print it alone on standard output, this once')
    .argument('<name>', 'the person or program that uses the key', parseNonEmpty)
    .addOption(
      new Option('--scope <scopes...>', 'its permissions').choices(SCOPES).default([...SCOPES]),
    )
    .option(
      '--source <slugs...>',
      'the sources it may send for (default: any)',
      (value: string, previousSlugs: string[] | undefined) => [
        ...(previousSlugs ?? []),
        parseSourceSlug(value),
      ],
    )
    .action((name: string, { scope: scopes, source: sources }: CreateOptions) =>
      withKeys(context, async (keys) => {
        const { id, key } = await keys.create({ name, scopes, ...(sources && { sources }) });
        print(key);
        stderr.write(
          `This is key ${id}, shown this once: only its hash is kept. Send it as  Authorization: Bearer KEY\n`,
        );
      }),
    );

  apiKey
    .command('list')
    .description('show all keys, without the keys themselves')
    .action(() =>
      withKeys(context, async (keys) => {
        const rows = await keys.list();
        if (rows.length === 0) {
          print('There are no API keys: create one with  npx oselya api-key create NAME');
        }
        for (const row of rows) {
          const sources = row.source_slugs === null ? 'any source' : row.source_slugs.join(',');
          const status =
            row.revoked_at === null ? 'active' : `revoked ${formatDay(row.revoked_at)}`;
          const lastUse =
            row.last_used_at === null ? 'never used' : `used ${formatDay(row.last_used_at)}`;
          print([row.id, row.name, row.scopes.join(','), sources, status, lastUse].join('\t'));
        }
      }),
    );

  apiKey
    .command('revoke')
    .description('end the use of a key immediately')
    .argument('<id>', 'as printed by create and list')
    .action((id: string) =>
      withKeys(context, async (keys) => {
        if (await keys.revoke(id)) return print(`Key ${id} is revoked.`);
        throw new CommandError(
          `there is no active key ${JSON.stringify(id)}: see  npx oselya api-key list`,
        );
      }),
    );
}

const formatDay = (date: Date): string => date.toISOString().slice(0, 10);

async function withKeys(
  context: Context,
  work: (keys: ReturnType<typeof createApiKeyStore>) => Promise<void>,
): Promise<void> {
  const collector = await import('@oselya/collector');
  const { loadConfig } = await import('@oselya/kit');
  const config = loadConfig(collector.configSchema, context.env);
  await using database = await openDatabase<Tables>(config, context);
  await collector.migrateDatabase(context.env, database);
  await work(collector.createApiKeyStore(database));
}
