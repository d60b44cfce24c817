import type { ProviderSession } from '../identity/index.ts';

/** What an event does here, and to whom. */
type Rule = {
  does: 'end_sessions' | 'clear_access';
  /** Whether it is about the user that it names, about everybody, or about everybody where it names nobody. */
  to: 'user' | 'everybody' | 'user_or_everybody';
};

/** The events that change something here. Specification 000, Events; Contract 3, Webhooks. */
export const rules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['user.blocked', { does: 'end_sessions', to: 'user' }],
  ['user.archived', { does: 'end_sessions', to: 'user' }],
  ['user.deleted', { does: 'end_sessions', to: 'user' }],
  ['session.revoked', { does: 'end_sessions', to: 'user' }],
  ['auth.global_logout', { does: 'end_sessions', to: 'everybody' }],
  ['client.roles_changed', { does: 'clear_access', to: 'user_or_everybody' }],
  ['client.permissions_changed', { does: 'clear_access', to: 'user_or_everybody' }],
]);

/** What is to be done because of an event. */
export type Effect =
  | { does: Rule['does']; whose: { userId: string } | 'everybody' }
  | { does: 'end_sessions'; whose: ProviderSession };

/** What a logout token is called in the ledger and in the metrics. */
export const BACKCHANNEL_LOGOUT = 'backchannel_logout';

/**
 * What an event asks for: nothing where it is not in the table, or needs a user and names none. An
 * event of `client.…` is taken whichever client it names: clearing too much costs one fetch.
 */
export function effectOf({
  name,
  userId,
}: {
  name: string | null;
  userId: string | null;
}): Effect | undefined {
  const rule = rules.get(name ?? '');
  if (rule === undefined) return undefined;
  const { does, to } = rule;
  if (to !== 'everybody' && userId !== null) return { does, whose: { userId } };
  return to === 'user' ? undefined : { does, whose: 'everybody' };
}
