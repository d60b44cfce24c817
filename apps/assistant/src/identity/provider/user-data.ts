import { Type } from 'typebox';
import { Value } from 'typebox/value';
import type { User } from '../../access/permissions.ts';
import type { Config } from '../../config.ts';
import { isStorable } from '../../text.ts';
import { NoEmailError, ProviderError } from './transport.ts';

const MAX_SLUGS = 1000;

/** OpenID Connect Core §2 for an id, RFC 5321 §4.5.3.1 for an email. */
const MAX_CHARACTERS = { id: 255, email: 320, name: 255, slug: 255 };

const INTEGER = /^-?\d{1,255}$/;

/**
 * Parses JSON of the provider with integers as bigints, because a number beyond 2^53 would be rounded to the id of
 * another user.
 * @throws SyntaxError
 */
export function parseProviderJson(text: string): unknown {
  return JSON.parse(text, exactInteger);
}

/** TypeScript's types lack the third parameter of revivers. */
function exactInteger(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source ?? '';
  return typeof value === 'number' && INTEGER.test(source) ? BigInt(source) : value;
}

/**
 * Reads an id that the provider sent: a string, or an integer of `parseProviderJson`.
 * @returns The id as text; undefined when the value is neither or cannot be stored.
 */
export function readProviderId(value: unknown): string | undefined {
  const id = typeof value === 'bigint' ? value.toString() : value;
  return isStorable(id, MAX_CHARACTERS.id) ? id : undefined;
}

const slugs = Type.Array(Type.String(), { maxItems: MAX_SLUGS });
const accessEntry = Type.Object({
  role_ids: Type.Optional(slugs),
  permission_ids: Type.Optional(slugs),
});

/** The variables that locate access data in user data. Contract 1. */
type UserDataRules = Pick<
  Config,
  'IDP_CLIENT_ID' | 'IDP_ADMIN_ROLE_SLUG' | 'IDP_ROLES_CLAIM' | 'IDP_PERMISSIONS_CLAIM'
>;

/**
 * Reads the provider's user data. Missing or malformed access data grants the role `user` and no permissions. A name or
 * slug that cannot be stored is omitted. Contract 3, Identity provider.
 * @param answer Parsed by `parseProviderJson`.
 * @throws ProviderError `unavailable` without a usable id, and NoEmailError without a usable email.
 */
export function readUserData(answer: unknown, rules: UserDataRules): User {
  const id = readProviderId(field(answer, 'sub') ?? field(answer, 'id'));
  const email = field(answer, 'email');
  if (id === undefined) {
    throw new ProviderError('unavailable', 'userinfo answered without a usable user id');
  }
  if (!isStorable(email, MAX_CHARACTERS.email)) throw new NoEmailError();
  const listed = readAccessList(field(answer, 'client_access_list'), rules.IDP_CLIENT_ID);
  const { IDP_ROLES_CLAIM: rolesClaim, IDP_PERMISSIONS_CLAIM: permissionsClaim } = rules;
  const roles = rolesClaim === '' ? (listed.role_ids ?? []) : readClaim(answer, rolesClaim);
  const permissions =
    permissionsClaim === '' ? (listed.permission_ids ?? []) : readClaim(answer, permissionsClaim);
  const names = [field(field(answer, 'profile'), 'display_name'), field(answer, 'name')];
  return {
    id,
    email,
    display_name: names.find((name) => isStorable(name, MAX_CHARACTERS.name)) ?? null,
    role: roles.includes(rules.IDP_ADMIN_ROLE_SLUG) ? 'admin' : 'user',
    permissions: [...new Set(permissions)].filter((slug) => isStorable(slug, MAX_CHARACTERS.slug)),
  };
}

/** Reads the entry of this client. Two entries could contradict each other, so they count as malformed. */
function readAccessList(list: unknown, clientId: string) {
  if (!Array.isArray(list)) return {};
  const entries = list.filter((entry) => field(entry, 'client_id') === clientId);
  const [entry] = entries;
  return entries.length === 1 && Value.Check(accessEntry, entry) ? entry : {};
}

/** Reads a claim: a list of slugs or, as in OAuth scopes, one text with spaces between them. */
function readClaim(answer: unknown, path: string): readonly string[] {
  // Some providers name claims with addresses, so the whole path may be one name that contains dots.
  const value =
    field(answer, path) ??
    path.split('.').reduce<unknown>((part, name) => field(part, name), answer);
  if (typeof value === 'string') return value.split(/\s+/).filter((slug) => slug !== '');
  return Value.Check(slugs, value) ? value : [];
}

/** Reads an own property; an inherited one did not come from the provider. */
function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return Reflect.get(value, name);
}
