import type { DevAccess } from '../accounts.ts';
import { permissions, roles } from '../permissions.ts';
import { Refusal } from './refusal.ts';

/** A box to tick for an account. */
export type Choice = {
  slug: string;
  meaning: string;
  chosen: boolean;
};

/**
 * The roles an account can be given: those of the application, and any other that it has already,
 * which saving the form must not take away unasked.
 */
export function offeredRoles({ role_ids }: DevAccess): Choice[] {
  const known = roles.map((slug) => ({ slug, meaning: '' }));
  return withOthers(known, role_ids);
}

/** The permissions an account can be given, likewise. */
export function offeredPermissions({ permission_ids }: DevAccess): Choice[] {
  return withOthers(permissions, permission_ids);
}

/** @throws Refusal 400 when a role or permission was chosen that the account's form does not offer */
export function assertOffered(account: DevAccess, chosen: DevAccess): void {
  assertAmong(offeredRoles(account), chosen.role_ids, 'role');
  assertAmong(offeredPermissions(account), chosen.permission_ids, 'permission');
}

function withOthers(
  known: readonly { slug: string; meaning: string }[],
  present: readonly string[],
): Choice[] {
  const chosen = new Set(present);
  const others = chosen.difference(new Set(known.map(({ slug }) => slug)));
  return [
    ...known.map(({ slug, meaning }) => ({ slug, meaning, chosen: chosen.has(slug) })),
    ...[...others].map((slug) => ({ slug, meaning: '', chosen: true })),
  ];
}

function assertAmong(offered: readonly Choice[], chosen: readonly string[], kind: string): void {
  const unknown = chosen.find((slug) => !offered.some((choice) => choice.slug === slug));
  if (unknown !== undefined) throw new Refusal(400, `There is no ${kind} “${unknown}”.`);
}
