import { resolve } from 'node:path';
import type { DevAccount } from '@oselya/dev-idp';
import { DEFAULT_ASSISTANT_URL, DEFAULT_COLLECTOR_URL } from '../config.ts';
import type { SamplesState } from './samples.ts';

/** Facts shown in the summary. */
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
  /** Whether the collector requires an API key. */
  keysRequired: boolean;
  /** Variables that are set but ignored. */
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

${ignoredNote(facts.ignored)}  Try next:
${suggestions(facts)
  .map((line) => `    ${line}`)
  .join('\n')}
${samplesNote(facts.samples)}`;
}

function samplesNote(samples: SamplesState): string {
  if (samples === 0) return '';
  return samples === 'being sent'
    ? '\n  The sample listings are still being sent: until then a search finds those that have arrived.\n'
    : `\n  ${samples} sample listings were sent and are being processed.\n`;
}

/** Formats the note about ignored variables of another identity provider. */
function ignoredNote(names: readonly string[]): string {
  if (names.length === 0) return '';
  return `  Ignored, because the identity provider is the development one: ${names.join(', ')}
  For your own provider run  npx oselya assistant  (docs/sign-in.md).

`;
}

function suggestions({
  assistantUrl,
  collectorUrl,
  keysRequired,
  ...facts
}: SummaryFacts): string[] {
  const chat = `npx oselya chat ${assistantUrl === DEFAULT_ASSISTANT_URL ? '' : `--url ${assistantUrl} `}двокімнатна у Львові до 15000 грн`;
  const where = collectorUrl === DEFAULT_COLLECTOR_URL ? '' : `COLLECTOR_URL=${collectorUrl} `;
  const search = `${where}npx oselya search`;
  const validate = 'npx oselya inventory validate inventory/endpoints.json';
  if (keysRequired) {
    return [
      chat,
      validate,
      `${collectorUrl}/health`,
      `To search, stop, make a key with  ${databaseOf(facts)}npx oselya api-key create NAME`,
      `start again, and then  ${where}COLLECTOR_API_KEY=… npx oselya search квартира Львів`,
    ];
  }
  return [
    chat,
    `${search} квартира Львів --limit 3`,
    `${search} --similar "flat with a balcony in Lviv" --limit 3`,
    validate,
    `${collectorUrl}/api/v1/raw/1`,
    `${collectorUrl}/api/v1/listings/2/history`,
    `${collectorUrl}/health`,
  ];
}

/** Returns the variable that selects the same database. A database URL is not printed, because it may contain a password. */
function databaseOf({ isEmbedded, dataDir }: Pick<SummaryFacts, 'isEmbedded' | 'dataDir'>): string {
  if (!isEmbedded) return 'DATABASE_URL=… ';
  if (dataDir === resolve('var')) return '';
  return `DATA_DIR='${dataDir.replaceAll("'", "'\\''")}' `;
}
