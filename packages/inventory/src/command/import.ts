import { basename } from 'node:path';
import { importCaddy } from '../import/caddy.ts';
import { importCompose } from '../import/compose.ts';
import { type Import, ImportError, toDrafts } from '../import/draft.ts';
import type { Folder } from '../import/included-files.ts';
import { importNginx } from '../import/nginx.ts';
import { importOpenApi } from '../import/openapi.ts';
import { count } from '../output/wording.ts';
import { jsonList } from '../output/visible.ts';
import { choice, parseArguments } from './arguments.ts';
import type { Command } from './command.ts';
import { readFailureAsUsage } from './file-failure.ts';
import { oneFile } from './input-files.ts';
import { readText } from './read-text.ts';
import { UsageError } from './usage-error.ts';

const SOURCES = ['compose', 'nginx', 'caddy', 'openapi'] as const;

const IMPORTS: Record<(typeof SOURCES)[number], (text: string, folder?: Folder) => Import> = {
  compose: importCompose,
  nginx: importNginx,
  caddy: importCaddy,
  openapi: importOpenApi,
};

const HELP = `Prints draft records of the endpoints that a file speaks of, as an inventory. The drafts are valid; what
only you can know is blank in them, and \`lint\` asks for it. FILE may be - for standard input.

Options:
  --from compose|nginx|caddy|openapi
      compose      published ports of a Compose file, and routers in labels for Traefik;
                   variables have their defaults
      nginx        servers of an nginx configuration
      caddy        sites of a Caddyfile; variables have their defaults
      openapi      servers of an OpenAPI document, YAML or JSON
  --folder FOLDER                   follow the includes of nginx and Compose to files in FOLDER, to which
                                    relative paths lead; files outside of it are left out
  --help                            print this text

Exit status: 0 printed, 2 unreadable or wrong use.
`;

/** `oselya inventory import` (Contract 5). */
export const importCommand: Command = {
  help: HELP,
  async run(argv, { io, out, tell }) {
    const { values, positionals } = parseArguments('import', argv, {
      from: { type: 'string' },
      folder: { type: 'string' },
    });

    const file = await oneFile(positionals, 'imported');
    const from = choice('--from', SOURCES, values.from);
    if (from === undefined) throw new UsageError(`give --from ${SOURCES.join('|')}`);
    const text = await readText(file, { io });
    const label = file === '-' ? '<stdin>' : file;
    const source = file === '-' ? from : basename(file);
    const folder = values.folder === undefined ? undefined : folderOf(values.folder, file);
    const { records, withCredentials, leftOut } = read(text, { from, label, source, folder });
    await out.writeAll(jsonList(records));
    await out.write('\n');
    if (withCredentials > 0) {
      tell(`${count(withCredentials, 'draft')} printed without the credentials in ${label}`);
    }
    for (const line of leftOut.lines) tell(`left out: ${line}`);
    if (leftOut.more > 0) tell(`left out: ${leftOut.more} more`);
    if (records.length === 0)
      tell(`no endpoint found in ${label}; is it what --from says, ${from}?`);
    return 0;
  },
};

function folderOf(path: string, file: string): Folder {
  return { path, file: file === '-' ? undefined : file };
}

/** @throws UsageError when it is not what it is said to be, or has too much. */
function read(
  text: string,
  {
    from,
    label,
    source,
    folder,
  }: { from: (typeof SOURCES)[number]; label: string; source: string; folder: Folder | undefined },
) {
  try {
    const { found, leftOut } = IMPORTS[from](text, folder);
    return { ...toDrafts(found, source), leftOut };
  } catch (error) {
    if (!(error instanceof ImportError)) throw readFailureAsUsage(error, folder?.path ?? label);
    throw new UsageError(`${label} cannot be read as ${from}: ${error.message}`, { cause: error });
  }
}
