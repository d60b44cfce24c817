import type { Configuration } from 'oidc-provider';
import type { Accounts, DevAccount } from './accounts.ts';

/**
 * Whom the provider knows and what it tells about them, in the shape of Contract 3, Identity
 * provider. Blocked accounts do not exist for the protocol: neither sign-in, nor refresh, nor user
 * data.
 */
export function userData(accounts: Accounts, clientId: string): Configuration {
  return {
    claims: {
      openid: ['sub'],
      email: ['email'],
      profile: ['profile'],
      roles: ['client_access_list'],
      permissions: ['client_access_list'],
    },
    findAccount(_ctx, sub) {
      const account = accounts.find(sub);
      if (!account || account.blocked) return undefined;
      return {
        accountId: sub,
        claims: (_use, granted) => userInfo(account, clientId, new Set(granted.split(' '))),
      };
    },
  };
}

// Two scopes share one claim, so each decides over its part of the entry.
function userInfo(account: DevAccount, clientId: string, granted: ReadonlySet<string>) {
  return {
    sub: account.sub,
    email: account.email,
    profile: { display_name: account.display_name },
    client_access_list: [
      {
        client_id: clientId,
        ...(granted.has('roles') && { role_ids: account.role_ids }),
        ...(granted.has('permissions') && { permission_ids: account.permission_ids }),
      },
    ],
  };
}
