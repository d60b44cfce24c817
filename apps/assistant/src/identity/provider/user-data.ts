import { Type } from 'typebox';
import { Value } from 'typebox/value';
import type { User } from '../../access/permissions.ts';
import type { Config } from '../../config.ts';
import { isStorable } from '../../text.ts';
import { NoEmailError, ProviderError } from './transport.ts';

const MAX_SLUGS = 1000;

/** Maximum lengths. OpenID Connect Core §2 for an ID, RFC 5321 §4.5.3.1 for an email. */
const MAX_CHARACTERS = { id: 255, email: 320, name: 255, slug: 255 };

const INTEGER_PATTERN = /^-?\d{1,255}$/;

/** Parses JSON with integers as bigints, because rounding a number beyond 2^53 could yield the ID of another user. */
export function parseProviderJson(text: string): unknown {
  return JSON.parse(text, reviveInteger);
}

/** Revives integers as bigints. TypeScript's types lack the parameter `context`. */
function reviveInteger(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source ?? '';
  return typeof value === 'number' && INTEGER_PATTERN.test(source) ? BigInt(source) : value;
}

/** Reads a provider ID: a string or an integer. Returns undefined for other values and IDs that cannot be stored. */
export function readProviderId(value: unknown): string | undefined {
  const id = typeof value === 'bigint' ? value.toString() : value;
  return isStorable(id, MAX_CHARACTERS.id) ? id : undefined;
}

const slugsSchema = Type.Array(Type.String(), { maxItems: MAX_SLUGS });
const accessEntrySchema = Type.Object({
  role_ids: Type.Optional(slugsSchema),
  permission_ids: Type.Optional(slugsSchema),
});

/**
 * Reads the provider's user data. Missing or malformed access data grants the role `user` and no permissions. A name or
 * slug that cannot be stored is omitted. Contract 3, Identity provider.
 * @param data Parsed by `parseProviderJson`.
 * @throws ProviderError `unavailable` without a usable ID, and NoEmailError without a usable email.
 */
export function readUserData(
  data: unknown,
  config: Pick<
    Config,
    'IDP_CLIENT_ID' | 'IDP_ADMIN_ROLE_SLUG' | 'IDP_ROLES_CLAIM' | 'IDP_PERMISSIONS_CLAIM'
  >,
): User {
  const id = readProviderId(readMember(data, 'sub') ?? readMember(data, 'id'));
  const email = readMember(data, 'email');
  if (id === undefined) {
    throw new ProviderError('unavailable', 'userinfo responded without a usable user id');
  }
  if (!isStorable(email, MAX_CHARACTERS.email)) throw new NoEmailError();
  const entry = readAccessEntry(readMember(data, 'client_access_list'), config.IDP_CLIENT_ID);
  const readSlugs = (claim: string, listedSlugs: readonly string[] = []) =>
    claim === '' ? listedSlugs : readClaim(data, claim);
  const roles = readSlugs(config.IDP_ROLES_CLAIM, entry.role_ids);
  const permissions = readSlugs(config.IDP_PERMISSIONS_CLAIM, entry.permission_ids);
  const names = [readMember(readMember(data, 'profile'), 'display_name'), readMember(data, 'name')];
  return {
    id,
    email,
    display_name: names.find((name) => isStorable(name, MAX_CHARACTERS.name)) ?? null,
    role: roles.includes(config.IDP_ADMIN_ROLE_SLUG) ? 'admin' : 'user',
    permissions: [...new Set(permissions)].filter((slug) => isStorable(slug, MAX_CHARACTERS.slug)),
  };
}

/** Reads the entry of this client. Two entries could contradict each other, so they count as malformed. */
function readAccessEntry(list: unknown, clientId: string) {
  if (!Array.isArray(list)) return {};
  const entries = list.filter((entry) => readMember(entry, 'client_id') === clientId);
  const [entry] = entries;
  return entries.length === 1 && Value.Check(accessEntrySchema, entry) ? entry : {};
}

/** Reads a claim: a list of slugs, or one space-separated string as in OAuth scopes. */
function readClaim(data: unknown, path: string): readonly string[] {
  // Some providers name claims with URLs, so the whole path may be one name that contains dots.
  const value = readMember(data, path) ?? path.split('.').reduce<unknown>(readMember, data);
  if (typeof value === 'string') return value.split(/\s+/).filter((slug) => slug !== '');
  return Value.Check(slugsSchema, value) ? value : [];
}

/** Returns an own property of a value, because an inherited one does not come from the provider. */
export function readMember(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return Reflect.get(value, name);
}
