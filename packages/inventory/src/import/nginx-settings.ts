import type { Directive } from './nginx-directives.ts';

import { AccessRules } from './nginx-access.ts';

/** Directives of one level by their names, each with its first value. */
export type Settings = Map<string, string>;

/** What serves: `mail` and `stream` serve no HTTP. A file without any of them is one that `http` includes. */
export type Context = 'http' | 'mail' | 'stream';

/** What a server has from the level above it unless it says something else itself. */
const INHERITED = new Set(['auth_basic', 'auth_request', 'satisfy', 'ssl', 'ssl_verify_client']);

/** Whether a directive says who may come in, or that all are encrypted. */
export function isSetting(name: string): boolean {
  return INHERITED.has(name);
}

/** The context that a block at the top of a file is; undefined for other blocks. */
export function contextOf(name: string | undefined): Context | undefined {
  return name === 'http' || name === 'mail' || name === 'stream' ? name : undefined;
}

/**
 * The settings beside the servers of each context. They are for all of its servers, those that stand before them as
 * well, and so are looked for in a first reading.
 * https://nginx.org/en/docs/http/ngx_http_auth_basic_module.html#auth_basic
 */
export function inheritedSettings(
  directives: Iterable<Directive | null>,
): Map<Context, { settings: Settings; access: AccessRules }> {
  const all = new Map<Context, { settings: Settings; access: AccessRules }>();
  let depth = 0;
  let top: string | undefined;
  for (const directive of directives) {
    if (directive === null) {
      depth -= 1;
      continue;
    }
    const { name, values, opens } = directive;
    const context = depth === 0 ? 'http' : contextOf(top);
    if (depth <= 1 && context !== undefined) {
      const found = all.get(context) ?? { settings: new Map(), access: new AccessRules() };
      all.set(context, found);
      if (isSetting(name)) found.settings.set(name, values[0] ?? '');
      found.access.take(name, values[0] ?? '');
    }
    if (!opens) continue;
    if (depth === 0) top = name;
    depth += 1;
  }
  return all;
}

/** The way to authenticate that a setting asks for, as drafts name it; undefined for one that asks for none. */
export function wayOf(name: string, value: string): string | undefined {
  if (name === 'ssl_verify_client') return value === 'on' ? 'Client certificates' : undefined;
  if (value === 'off' || isVariable(value)) return undefined;
  if (name === 'auth_basic') return 'HTTP basic authentication';
  return name === 'auth_request' ? `Subrequest to ${value}` : undefined;
}

/** What a setting asks for in some cases, which only nginx knows; undefined where that is certain. */
export function conditionOf(name: string, value: string): string | undefined {
  if (name === 'auth_basic' && isVariable(value)) {
    return `HTTP basic authentication unless ${value} is off`;
  }
  return name === 'satisfy' && value === 'any'
    ? 'One way or an allowed address is enough'
    : undefined;
}

function isVariable(value: string): boolean {
  return /^\$(?:\w+|\{\w+\})$/.test(value);
}
