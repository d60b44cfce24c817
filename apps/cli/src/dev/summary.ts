import { resolve } from 'node:path';
import type { DevAccount } from '@oselya/dev-idp';
import { DEFAULT_ASSISTANT_URL, DEFAULT_COLLECTOR_URL } from '../config.ts';
import type { SamplesState } from './samples.ts';

export type SummaryData = {
  assistantUrl: string;
  collectorUrl: string;
  idpUrl: string;
  dataDir: string;
  /** Whether the database is the embedded one in the data folder. */
  isEmbedded: boolean;
  accounts: readonly Pick<DevAccount, 'email' | 'display_name' | 'role_ids'>[];
  seconds: number;
  samples: SamplesState;
  requiresKeys: boolean;
  ignoredVariables: readonly string[];
};

/** Formats the text to print when the platform is ready. */
export function formatSummary(data: SummaryData): string {
  const { assistantUrl, collectorUrl, idpUrl } = data;
  const accounts = data.accounts.map(
    ({ email, display_name, role_ids }) =>
      `    ${email.padEnd(24)} ${display_name}, ${role_ids.includes('svc_admin') ? 'admin' : 'user'}`,
  );
  return `
Oselya is ready (${data.seconds.toFixed(1)} s). Everything below works as printed; stop with Ctrl-C.

  Assistant          ${assistantUrl}
  Collector          ${collectorUrl}/docs
  Identity provider  ${idpUrl} (development only)
  Data               ${data.dataDir}

  Sign in at ${assistantUrl}/auth/login as one of (no password):
${accounts.join('\n')}
  Then block them, change their roles or log everybody out at ${idpUrl}

${formatIgnored(data.ignoredVariables)}  Try next:
${listSuggestions(data)
  .map((line) => `    ${line}`)
  .join('\n')}
${formatSamples(data.samples)}`;
}

function formatSamples(samples: SamplesState): string {
  if (samples === 0) return '';
  return samples === 'being sent'
    ? '\n  The sample listings are still being sent: until then a search finds those that have arrived.\n'
    : `\n  ${samples} sample listings were sent and are being processed.\n`;
}

function formatIgnored(names: readonly string[]): string {
  if (names.length === 0) return '';
  return `  Ignored, because the identity provider is the development one: ${names.join(', ')}
  For your own provider run  npx oselya assistant  (docs/sign-in.md).

`;
}

function listSuggestions(data: SummaryData): string[] {
  const { assistantUrl, collectorUrl } = data;
  const urlOption = assistantUrl === DEFAULT_ASSISTANT_URL ? '' : `--url ${assistantUrl} `;
  const chatCommand = `npx oselya chat ${urlOption}двокімнатна у Львові до 15000 грн`;
  const urlVariable =
    collectorUrl === DEFAULT_COLLECTOR_URL ? '' : `COLLECTOR_URL=${collectorUrl} `;
  const validateCommand = 'npx oselya inventory validate inventory/endpoints.json';
  if (data.requiresKeys) {
    return [
      chatCommand,
      validateCommand,
      `${collectorUrl}/health`,
      `To search, stop, create a key with  ${formatDatabaseVariable(data)}npx oselya api-key create NAME`,
      `start again, and then  ${urlVariable}COLLECTOR_API_KEY=… npx oselya search квартира Львів`,
    ];
  }
  return [
    chatCommand,
    `${urlVariable}npx oselya search квартира Львів --limit 3`,
    `${urlVariable}npx oselya search --mode meaning "flat with a balcony in Lviv" --limit 3`,
    validateCommand,
    `${collectorUrl}/api/v1/raw/1`,
    `${collectorUrl}/api/v1/listings/2/history`,
    `${collectorUrl}/health`,
  ];
}

/** Formats the variable that selects the same database. Omits a database URL, which may contain a password. */
function formatDatabaseVariable({ isEmbedded, dataDir }: SummaryData): string {
  if (!isEmbedded) return 'DATABASE_URL=… ';
  if (dataDir === resolve('var')) return '';
  return `DATA_DIR='${dataDir.replaceAll("'", "'\\''")}' `;
}
