import type { DevAccount } from '@oselya/dev-idp';

/** What the summary tells of. */
export type SummaryFacts = {
  assistantUrl: string;
  collectorUrl: string;
  idpUrl: string;
  dataDir: string;
  accounts: readonly Pick<DevAccount, 'email' | 'display_name' | 'role_ids'>[];
  seconds: number;
  /** How many sample listings were sent on this start. */
  samples: number;
};

/** What a newcomer sees when the platform is up. Every address and command in it works as printed. */
export function summary(facts: SummaryFacts): string {
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

  Try next:
    curl -s ${collectorUrl}/api/v1/search/fulltext -H 'content-type: application/json' -d '{"query": "двокімнатна квартира", "limit": 2}'
    curl -s ${collectorUrl}/api/v1/search/similar -H 'content-type: application/json' -d '{"query": "flat with a balcony in Lviv", "limit": 2}'
    curl -s ${collectorUrl}/api/v1/raw/1
    curl -s ${collectorUrl}/health
    npx oselya inventory validate inventory/endpoints.json
${facts.samples === 0 ? '' : `\n  ${facts.samples} sample listings were sent and are being processed.\n`}`;
}
