import { basename } from 'node:path';
import { importCaddy } from '../import/caddy.ts';
import { importCompose } from '../import/compose.ts';
import { ImportError } from '../import/draft.ts';
import { importNginx } from '../import/nginx.ts';
import { importOpenApi } from '../import/openapi.ts';
import { formatCount, formatJsonList } from '../text.ts';
import {
  createChoiceOption,
  type Command,
  parseArguments,
  textOption,
  UsageError,
} from './command.ts';
import { formatFileLabel, readText, resolveSingleFile, toReadError } from './files.ts';

const IMPORTERS = {
  compose: importCompose,
  nginx: importNginx,
  caddy: importCaddy,
  openapi: importOpenApi,
};

const HELP = `Prints draft records of the endpoints in a file, as an inventory. The drafts are valid; what only you can
know is blank, and \`lint\` reports it. FILE may be - for standard input.

Options:
  --from compose|nginx|caddy|openapi
      compose      published ports of a Compose file, and Traefik routers in labels;
                   variables have their defaults
      nginx        servers of an nginx configuration
      caddy        sites of a Caddyfile; variables have their defaults
      openapi      servers of an OpenAPI document, YAML or JSON
  --folder FOLDER                   follow the includes of nginx and Compose to files in FOLDER, the base
                                    of relative paths; files outside are skipped
  --help                            print this text

Exit status: 0 printed, 2 unreadable file or usage error.
`;

/** `oselya inventory import` (Contract 5). */
export const importCommand: Command = {
  help: HELP,
  async run(argv, { io, out, log }) {
    const { values, positionals } = parseArguments('import', argv, {
      from: createChoiceOption('compose', 'nginx', 'caddy', 'openapi'),
      folder: textOption,
    });
    const { from, folder: folderPath } = values;
    const file = await resolveSingleFile(positionals, 'imported');
    if (from === undefined) {
      throw new UsageError(`specify --from ${Object.keys(IMPORTERS).join('|')}`);
    }
    const text = await readText(file, { io });
    const label = formatFileLabel(file);
    const folder =
      folderPath === undefined
        ? undefined
        : { path: folderPath, file: file === '-' ? undefined : file };
    try {
      const result = IMPORTERS[from](text, folder);
      const { skippedParts, extraSkipCount } = result;
      const drafts = result.createDrafts(file === '-' ? from : basename(file));
      await out.writeAll(formatJsonList(drafts.records));
      await out.write('\n');
      if (drafts.credentialDraftCount > 0) {
        const count = formatCount(drafts.credentialDraftCount, 'draft');
        log(`${count} printed without the credentials in ${label}`);
      }
      for (const description of skippedParts) log(`skipped: ${description}`);
      if (extraSkipCount > 0) log(`skipped: ${extraSkipCount} more`);
      if (drafts.records.length === 0) log(`no endpoint found in ${label}; check --from ${from}`);
      return 0;
    } catch (error) {
      if (!(error instanceof ImportError)) throw toReadError(error, folderPath ?? label);
      const message = `cannot read ${label} as ${from}: ${error.message}`;
      throw new UsageError(message, { cause: error });
    }
  },
};
