import { resolve } from 'node:path';
import type { DevAccount } from '@oselya/dev-idp';
import { DEFAULT_ASSISTANT_URL, DEFAULT_COLLECTOR_URL } from '../config.ts';
import type { SamplesState } from './samples.ts';

export type SummaryFacts = {
  assistantUrl: string;
  collectorUrl: string;
  idpUrl: string;
  dataDir: string;
  /** Whether the database is the embedded database in the data folder. */
  isEmbedded: boolean;
  accounts: readonly Pick<DevAccount, 'email' | 'display_name' | 'role_ids'>[];
  seconds: number;
  samples: SamplesState;
  keysRequired: boolean;
  ignored: readonly string[];
};

/** Formats the text that is printed when the platform is ready. */
export function formatSummary(facts: SummaryFacts): string {
  const { assistantUrl, collectorUrl, idpUrl } = facts;
  const accounts = facts.accounts.map(
    ({ email, display_name, role_ids }) =>
      `    ${email.padEnd(24)} ${display_name}, ${role_ids.includes('svc_admin') ? 'admin' : 'user'}`,
  );
  return `
Oselya is ready (${facts.seconds.toFixed(1)} s). Everything below works as printed; stop with Ctrl-C.

  Assistant          ${assistantUrl}
  Collector          ${collectorUrl}/docs
  Identity provider  ${idpUrl} (development only)
  Data               ${facts.dataDir}

  Sign in at ${assistantUrl}/auth/login as one of (no password):
${accounts.join('\n')}
  Then block them, change their roles or log everybody out at ${idpUrl}

${formatIgnored(facts.ignored)}  Try next:
${listSuggestions(facts)
  .map((line) => `    ${line}`)
  .join('\n')}
${formatSamples(facts.samples)}`;
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

function listSuggestions(facts: SummaryFacts): string[] {
  const { assistantUrl, collectorUrl } = facts;
  const option = assistantUrl === DEFAULT_ASSISTANT_URL ? '' : `--url ${assistantUrl} `;
  const chat = `npx oselya chat ${option}двокімнатна у Львові до 15000 грн`;
  const variable = collectorUrl === DEFAULT_COLLECTOR_URL ? '' : `COLLECTOR_URL=${collectorUrl} `;
  const validate = 'npx oselya inventory validate inventory/endpoints.json';
  if (facts.keysRequired) {
    return [
      chat,
      validate,
      `${collectorUrl}/health`,
      `To search, stop, make a key with  ${formatDatabaseVariable(facts)}npx oselya api-key create NAME`,
      `start again, and then  ${variable}COLLECTOR_API_KEY=… npx oselya search квартира Львів`,
    ];
  }
  return [
    chat,
    `${variable}npx oselya search квартира Львів --limit 3`,
    `${variable}npx oselya search --similar "flat with a balcony in Lviv" --limit 3`,
    validate,
    `${collectorUrl}/api/v1/raw/1`,
    `${collectorUrl}/api/v1/listings/2/history`,
    `${collectorUrl}/health`,
  ];
}

/** Formats the variable that selects the same database. A database URL may contain a password. */
function formatDatabaseVariable({ isEmbedded, dataDir }: SummaryFacts): string {
  if (!isEmbedded) return 'DATABASE_URL=… ';
  if (dataDir === resolve('var')) return '';
  return `DATA_DIR='${dataDir.replaceAll("'", "'\\''")}' `;
}
