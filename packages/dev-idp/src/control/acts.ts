import type { Accounts, DevAccess } from '../accounts.ts';
import type { Artifacts } from '../store/artifacts.ts';
import type { WebhookDelivery, Webhooks } from '../webhooks/webhooks.ts';

/** The events that an act caused: none where it changed nothing. */
export type Caused = readonly Readonly<WebhookDelivery>[];

/**
 * What somebody who runs an identity provider does to accounts. Each change holds at the provider
 * before its event is sent, so a receiver that asks back is told how things are now.
 */
export type Acts = {
  /** @throws RangeError when there is no such account */
  setBlocked: (sub: string, blocked: boolean) => Caused;
  /** @throws RangeError when there is no such account */
  setAccess: (sub: string, access: DevAccess) => Caused;
  revokeSessions: (sub: string) => Caused;
  logOutEverybody: () => Caused;
};

/** Ties the acts to the accounts and sign-ins that they change, and to the webhooks that tell of it. */
export function createActs(accounts: Accounts, artifacts: Artifacts, webhooks: Webhooks): Acts {
  return {
    setBlocked(sub, blocked) {
      const before = accounts.find(sub);
      accounts.setBlocked(sub, blocked);
      if (blocked) artifacts.revokeAccount(sub);
      if (before?.blocked === blocked) return [];
      return [webhooks.send(blocked ? 'user.blocked' : 'user.unblocked', sub)];
    },
    setAccess(sub, access) {
      const before = accounts.find(sub);
      accounts.setAccess(sub, access);
      const caused: Readonly<WebhookDelivery>[] = [];
      if (!sameMembers(before?.role_ids, access.role_ids)) {
        caused.push(webhooks.send('client.roles_changed', sub));
      }
      if (!sameMembers(before?.permission_ids, access.permission_ids)) {
        caused.push(webhooks.send('client.permissions_changed', sub));
      }
      return caused;
    },
    revokeSessions(sub) {
      artifacts.revokeAccount(sub);
      return [webhooks.send('session.revoked', sub)];
    },
    logOutEverybody() {
      artifacts.revokeEverybody();
      return [webhooks.send('auth.global_logout')];
    },
  };
}

function sameMembers(before: readonly string[] = [], after: readonly string[]): boolean {
  return new Set(before).symmetricDifference(new Set(after)).size === 0;
}
