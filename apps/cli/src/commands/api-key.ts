import type { createApiKeyStore, SCOPES as CollectorScopes, Tables } from '@oselya/collector';
import { type Command, Option } from 'commander';
import {
  CommandError,
  type Context,
  formatHelp,
  openDatabase,
  parseSourceSlug,
} from '../command.ts';

// A copy keeps the collector out of --help; the compiler compares the two.
const SCOPES: typeof CollectorScopes = ['ingest', 'search', 'admin'];
type Scope = (typeof SCOPES)[number];

type Keys = ReturnType<typeof createApiKeyStore>;

/** `oselya api-key create|list|revoke`. Contract 1. */
export function addApiKeyCommand(program: Command, context: Context): void {
  const { print, stderr } = context;
  const apiKey = program
    .command('api-key')
    .description("manage the collector's API keys")
    .addHelpText(
      'after',
      formatHelp(
        'the database of the collector: DATABASE_URL or DATA_DIR.',
        'The collector requires keys with COLLECTOR_AUTH=required.',
      ),
    )
    .helpCommand(false);

  apiKey
    .command('create')
    .description('make a key and print it alone on standard output, this once')
    .argument('<name>', 'the person or program that uses the key')
    .addOption(
      new Option('--scope <scopes...>', 'its permissions').choices(SCOPES).default([...SCOPES]),
    )
    .option(
      '--source <slugs...>',
      'the sources it may send for; any when not given',
      (value: string, earlier: string[] | undefined) => [
        ...(earlier ?? []),
        parseSourceSlug(value),
      ],
    )
    .action((name: string, { scope, source }: { scope: Scope[]; source?: string[] }) =>
      withKeys(context, async (keys) => {
        const { id, key } = await keys.create({
          name,
          scopes: scope,
          ...(source !== undefined && { sources: source }),
        });
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
        if (rows.length === 0)
          print('There are no API keys: make one with  npx oselya api-key create NAME');
        for (const row of rows) {
          const sources = row.source_slugs === null ? 'any source' : row.source_slugs.join(',');
          const state = row.revoked_at === null ? 'active' : `revoked ${day(row.revoked_at)}`;
          const used = row.last_used_at === null ? 'never used' : `used ${day(row.last_used_at)}`;
          print([row.id, row.name, row.scopes.join(','), sources, state, used].join('\t'));
        }
      }),
    );

  apiKey
    .command('revoke')
    .description('end the use of a key at once')
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

const day = (date: Date): string => date.toISOString().slice(0, 10);

async function withKeys(context: Context, work: (keys: Keys) => Promise<void>): Promise<void> {
  const collector = await import('@oselya/collector');
  const { loadConfig } = await import('@oselya/kit');
  await using database = await openDatabase<Tables>(
    loadConfig(collector.configSchema, context.env),
    context,
  );
  await collector.migrateDatabase(context.env, database);
  await work(collector.createApiKeyStore(database));
}
