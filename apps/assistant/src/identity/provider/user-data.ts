import { Type } from 'typebox';
import { Value } from 'typebox/value';
import type { User } from '../../access/permissions.ts';
import { isStorable } from '../../text.ts';
import { NoEmailError, ProviderError } from './provider-error.ts';
import { readProviderId } from './user-id.ts';

/** Where the user data says who may do what. Contract 1. */
type UserDataRules = {
  clientId: string;
  adminRoleSlug: string;
  /** Dotted paths into the user data; empty where `client_access_list` is what counts. */
  rolesClaim: string;
  permissionsClaim: string;
};

const MAX_SLUGS = 1000;

/** RFC 5321 §4.5.3.1 for an email; names and slugs are shorter. */
const MAX_CHARACTERS = { email: 320, name: 255, slug: 255 };

const slugs = Type.Array(Type.String(), { maxItems: MAX_SLUGS });
const accessEntry = Type.Object({
  role_ids: Type.Optional(slugs),
  permission_ids: Type.Optional(slugs),
});

type Access = { roles: readonly string[]; permissions: readonly string[] };
const NO_ACCESS: Access = { roles: [], permissions: [] };

/**
 * Reads the answer of the provider's `userinfo`. Access data that is missing or malformed gives the
 * role `user` and no permissions: it must never open anything. Contract 3, Identity provider.
 * A name or a slug that cannot be stored is left out.
 * @param answer As `parseProviderJson` gives it.
 * @throws ProviderError `unavailable` where there is no id that can be stored, so no user, and NoEmailError
 * where there is no such email.
 */
export function readUserData(answer: unknown, rules: UserDataRules): User {
  const id = readProviderId(field(answer, 'sub') ?? field(answer, 'id'));
  const email = field(answer, 'email');
  if (id === undefined) {
    throw new ProviderError('unavailable', 'userinfo answered without a usable user id');
  }
  if (!isStorable(email, MAX_CHARACTERS.email)) throw new NoEmailError();
  const access = readAccess(answer, rules);
  const names = [field(field(answer, 'profile'), 'display_name'), field(answer, 'name')];
  const name = names.find((one) => isStorable(one, MAX_CHARACTERS.name));
  return {
    id,
    email,
    display_name: name ?? null,
    role: access.roles.includes(rules.adminRoleSlug) ? 'admin' : 'user',
    permissions: [...new Set(access.permissions)].filter((slug) =>
      isStorable(slug, MAX_CHARACTERS.slug),
    ),
  };
}

function readAccess(answer: unknown, rules: UserDataRules): Access {
  const listed = readAccessList(field(answer, 'client_access_list'), rules.clientId);
  return {
    roles: rules.rolesClaim === '' ? listed.roles : readClaim(answer, rules.rolesClaim),
    permissions:
      rules.permissionsClaim === ''
        ? listed.permissions
        : readClaim(answer, rules.permissionsClaim),
  };
}

/** One entry speaks for this client. Two could contradict each other, so they count as malformed. */
function readAccessList(list: unknown, clientId: string): Access {
  if (!Array.isArray(list)) return NO_ACCESS;
  const entries = list.filter((entry) => field(entry, 'client_id') === clientId);
  const [entry] = entries;
  if (entries.length !== 1 || !Value.Check(accessEntry, entry)) return NO_ACCESS;
  return { roles: entry.role_ids ?? [], permissions: entry.permission_ids ?? [] };
}

/** A claim is a list of slugs or, as in OAuth scopes, one text with spaces between them. */
function readClaim(answer: unknown, path: string): readonly string[] {
  // Some providers name claims with addresses, so the whole path may be one name with dots in it.
  const value =
    field(answer, path) ??
    path.split('.').reduce<unknown>((part, name) => field(part, name), answer);
  if (typeof value === 'string') return value.split(/\s+/).filter((slug) => slug !== '');
  return Value.Check(slugs, value) ? value : [];
}

/** An own property; what an object inherits is not what the provider sent. */
function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return Reflect.get(value, name);
}
