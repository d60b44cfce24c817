import { errors, interactionPolicy, type KoaContextWithOIDC, type Provider } from 'oidc-provider';

/**
 * The one client belongs to the same owner as the provider, so nobody is asked to consent. An account
 * that was blocked after it had been picked is told to the client as a refusal.
 */
export function pickWithoutConsent(): interactionPolicy.DefaultPolicy {
  const policy = interactionPolicy.base();
  policy.remove('consent');
  policy.get('login')?.checks.add(
    new interactionPolicy.Check('account_blocked', 'the account is blocked', ({ oidc }) => {
      if (oidc.session?.accountId && !oidc.entities.Account) {
        throw new errors.AccessDenied('The account cannot sign in.');
      }
      return interactionPolicy.Check.NO_NEED_TO_PROMPT;
    }),
  );
  return policy;
}

/** Grants the scopes of the request, afresh for each sign-in, so that each is revoked by itself. */
export async function grantWhatIsAsked(ctx: KoaContextWithOIDC) {
  const { Account, Client } = ctx.oidc.entities;
  const grant = new ctx.oidc.provider.Grant({
    accountId: Account?.accountId,
    clientId: Client?.clientId,
  });
  grant.addOIDCScope([...ctx.oidc.requestParamOIDCScopes].join(' '));
  await grant.save();
  return grant;
}

/**
 * Ends the provider's session as soon as it has served its sign-in, so that the next one shows the
 * accounts again and a developer who signed out of the application can come back as somebody else.
 */
export function endSessionWithSignIn(provider: Provider): void {
  provider.use(async (ctx, next) => {
    await next();
    // oidc-provider adds `oidc` to the context of each request it routes.
    const { oidc } = ctx as Partial<KoaContextWithOIDC>;
    if (!oidc?.session?.accountId) return;
    await oidc.session.destroy();
    ctx.cookies.set(provider.cookieName('session'), null, { overwrite: true });
  });
}
