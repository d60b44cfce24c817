import type { createApiKeys, SCOPES as CollectorScopes, Tables } from '@oselya/collector';
import { type Command, Option } from 'commander';
import { sourceSlug } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Context } from '../context.ts';
import { help } from '../help.ts';

// Written out, so that --help need not load the collector; the compiler holds both lists together.
const SCOPES: typeof CollectorScopes = ['ingest', 'search', 'admin'];
type Scope = (typeof SCOPES)[number];

/** `oselya api-key create|list|revoke`: the collector's API keys. Contract 1. */
export function addApiKeyCommand(program: Command, context: Context): void {
  const { print, stderr } = context;
  const apiKey = program
    .command('api-key')
    .description("manage the collector's API keys")
    .addHelpText(
      'after',
      help(
        'the database of the collector: DATABASE_URL or DATA_DIR.',
        'The collector asks for keys where COLLECTOR_AUTH=required.',
      ),
    )
    .helpCommand(false);

  apiKey
    .command('create')
    .description('make a key and print it alone on standard output, this once')
    .argument('<name>', 'who or what uses the key')
    .addOption(
      new Option('--scope <scopes...>', 'what it may do').choices(SCOPES).default([...SCOPES]),
    )
    .option('--source <slugs...>', 'the sources it may send for; any when not given', sourceSlugs)
    .action(async (name: string, options: { scope: Scope[]; source?: string[] }) => {
      await withKeys(context, async (keys) => {
        const { id, key } = await keys.create({
          name,
          scopes: options.scope,
          ...(options.source === undefined ? {} : { sources: options.source }),
        });
        print(key);
        stderr.write(
          `This is key ${id}, shown this once: only its hash is kept. Send it as  Authorization: Bearer KEY\n`,
        );
      });
    });

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

function sourceSlugs(value: string, previous: string[] = []): string[] {
  return [...previous, sourceSlug(value)];
}

function day(date: Date): string {
  return date.toISOString().slice(0, 10);
}

type Keys = ReturnType<typeof createApiKeys>;

async function withKeys(context: Context, work: (keys: Keys) => Promise<void>): Promise<void> {
  const collector = await import('@oselya/collector');
  const { loadConfig } = await import('@oselya/kit');
  const { openDatabase } = await import('./database.ts');
  await using database = await openDatabase<Tables>(
    loadConfig(collector.configSchema, context.env),
    context,
  );
  await collector.migrateDatabase(context.env, database);
  await work(collector.createApiKeys(database));
}
