import { hostIn, placeOf } from '../address.ts';
import { MAX_URL_CHARACTERS, MAX_YAML_BYTES } from '../limits.ts';
import { quoted, shorten } from '../text.ts';
import { type Found, Import, listed, SiteNotes } from './draft.ts';
import { list, mapping, parseMapping, text } from './source.ts';

/** Imports the servers of an OpenAPI document (3.x `servers`; 2.0 `schemes`, `host` and `basePath`). */
export function importOpenApi(source: string): Import {
  const document = parseMapping(source, MAX_YAML_BYTES);
  const info = mapping(document['info']);
  const name = text(info['title']) ?? 'API';
  const summary = text(info['summary']) ?? text(info['description']);
  const security = securityOf(document);
  const about = {
    purpose: summary?.split('\n', 1)[0]?.trim(),
    auth: security.auth(),
    docs: text(mapping(document['externalDocs'])['url']),
  };
  const result = new Import();
  for (const { url, description = '' } of serversOf(document)) {
    const address = readAddress(url);
    if (typeof address === 'string') {
      result.skip(() => `the server ${quoted(url)} ${address}`);
      continue;
    }
    const end = description === '' || /[.!?]$/.test(description) ? '' : '.';
    const notes = security.text();
    const separated = [notes === '' ? description : description + end, notes];
    result.add({
      ...draftOf(name, url, address),
      ...about,
      notes: separated.filter(Boolean).join(' '),
    });
  }
  for (const place of placesWithServers(document)) {
    result.skip(() => `${shorten(place)} has its own servers; add those that differ`);
  }
  return result;
}

/** Returns the URL of a server, or the reason why it has none. */
function readAddress(url: string): URL | string {
  if (url.length > MAX_URL_CHARACTERS) return `is longer than ${MAX_URL_CHARACTERS} characters`;
  if (/^(?:[{}]|[^/]*\/\/[^/?#]*[{}])/.test(url)) {
    return 'has a variable without a default in its host; add it with the actual names';
  }
  const address = URL.parse(url);
  const isFull = address !== null && address.hostname !== '';
  return isFull ? address : 'is relative to its own host, which is unknown';
}

function draftOf(name: string, url: string, address: URL): Found {
  const place = placeOf(hostIn(url, address));
  const { host, domain = '' } = place;
  return {
    key: [name, host ?? domain, ...(address.port === '' ? [] : [address.port])],
    name,
    type: 'http',
    ...place,
    url,
    protocol: address.protocol.slice(0, -1),
    port: address.port === '' ? undefined : Number(address.port),
  };
}

/** Yields the paths and operations that are on other servers than the document. */
function* placesWithServers(document: Record<string, unknown>): Generator<string> {
  for (const [path, written] of Object.entries(mapping(document['paths']))) {
    const item = mapping(written);
    if (list(item['servers']).length > 0) yield `the path ${path}`;
    for (const [method, operation] of Object.entries(item)) {
      if (list(mapping(operation)['servers']).length > 0) yield `${method.toUpperCase()} ${path}`;
    }
  }
}

function* serversOf(
  document: Record<string, unknown>,
): Generator<{ url: string; description?: string | undefined }> {
  const host = text(document['host']);
  if (host !== undefined) {
    const path = text(document['basePath']) ?? '';
    const schemes = list(document['schemes']).filter((scheme) => typeof scheme === 'string');
    for (const scheme of schemes.length === 0 ? ['https'] : schemes) {
      yield { url: `${scheme}://${host}${path}` };
    }
    return;
  }
  for (const entry of list(document['servers'])) {
    const server = mapping(entry);
    const url = withDefaults(text(server['url']) ?? '', mapping(server['variables']));
    yield { url, description: text(server['description']) };
  }
}

/** Inserts the defaults of variables, until the URL is too long. */
function withDefaults(url: string, variables: Record<string, unknown>): string {
  let result = '';
  let index = 0;
  for (const { 0: whole, 1: variable = '', index: at } of url.matchAll(/\{([^{}]+)\}/g)) {
    const value = text(mapping(variables[variable])['default']) ?? whole;
    result += url.slice(index, at) + value.slice(0, MAX_URL_CHARACTERS + 1);
    if (result.length > MAX_URL_CHARACTERS) return result;
    index = at + whole.length;
  }
  return result + url.slice(index);
}

const METHOD = /^(?:get|put|post|delete|options|head|patch|trace|query)$/;

/**
 * Notes the security of the document and of operations that differ. Schemes that no requirement names are unused.
 * https://spec.openapis.org/oas/v3.1.1.html#security-requirement-object
 */
function securityOf(document: Record<string, unknown>): SiteNotes {
  const schemes = {
    ...mapping(mapping(document['components'])['securitySchemes']),
    ...mapping(document['securityDefinitions']),
  };
  const required = new Set<string>();
  const nameOf = (name: string) => {
    const { type, scheme } = mapping(schemes[name]);
    return [text(type), text(scheme)].filter(Boolean).join(' ') || name;
  };
  /** Joins alternative requirements; an empty one makes the others optional. */
  const wayOf = (security: unknown) => {
    const alternatives = list(security).map((requirement) => Object.keys(mapping(requirement)));
    for (const name of alternatives.flat()) required.add(name);
    const words = alternatives
      .filter((names) => names.length > 0)
      .map((names) => listed(names.map(nameOf), ' and '));
    return { way: listed(words, ' or '), isOptional: words.length < alternatives.length };
  };
  const notes = new SiteNotes();
  const whole = wayOf(document['security']);
  if (whole.way !== '' && whole.isOptional) notes.note(`Optional: ${whole.way}.`);
  else if (whole.way !== '') notes.requires(whole.way);
  for (const [path, item] of Object.entries(mapping(document['paths']))) {
    for (const [method, operation] of Object.entries(mapping(item))) {
      const { security } = mapping(operation);
      if (!METHOD.test(method) || !Array.isArray(security)) continue;
      const place = `${method.toUpperCase()} ${path}`;
      const { way, isOptional } = wayOf(security);
      if (way === '' || isOptional) notes.opens(place);
      else if (way !== whole.way || whole.isOptional) notes.requires(way, place);
    }
  }
  const unused = Object.keys(schemes).filter((name) => !required.has(name));
  if (unused.length > 0)
    notes.note(`Defined but not required: ${listed(unused.map(nameOf), '; ')}.`);
  return notes;
}
