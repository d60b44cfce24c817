import { getWrittenHost, toHostProperties } from '../address.ts';
import { MAX_URL_CHARACTERS, MAX_YAML_BYTES } from '../limits.ts';
import { quoteText, shorten } from '../text.ts';
import { type EndpointFacts, ImportResult, formatShortList, SiteNotes } from './draft.ts';
import { toList, toMapping, parseMapping, toText } from './source.ts';

/** Imports the servers of an OpenAPI document (3.x `servers`; 2.0 `schemes`, `host` and `basePath`). */
export function importOpenApi(source: string): ImportResult {
  const document = parseMapping(source, MAX_YAML_BYTES);
  const info = toMapping(document['info']);
  const name = toText(info['title']) ?? 'API';
  const summary = toText(info['summary']) ?? toText(info['description']);
  const security = createSecurityNotes(document);
  const about = {
    purpose: summary?.split('\n', 1)[0]?.trim(),
    auth: security.describeAuth(),
    docs: toText(toMapping(document['externalDocs'])['url']),
  };
  const result = new ImportResult();
  for (const { url, description = '' } of serversOf(document)) {
    const address = parseServerUrl(url);
    if (typeof address === 'string') {
      result.skip(() => `the server ${quoteText(url)} ${address}`);
      continue;
    }
    const end = description === '' || /[.!?]$/.test(description) ? '' : '.';
    const notes = security.describeRest();
    const separated = [notes === '' ? description : description + end, notes];
    result.add({
      ...createEndpointFacts(name, url, address),
      ...about,
      notes: separated.filter(Boolean).join(' '),
    });
  }
  for (const place of findPlacesWithServers(document)) {
    result.skip(() => `${shorten(place)} has its own servers; add those that differ`);
  }
  return result;
}

/** Parses the URL of a server. Returns a reason if the URL is unusable. */
function parseServerUrl(url: string): URL | string {
  if (url.length > MAX_URL_CHARACTERS) return `is longer than ${MAX_URL_CHARACTERS} characters`;
  if (/^(?:[{}]|[^/]*\/\/[^/?#]*[{}])/.test(url)) {
    return 'has a variable without a default in its host; add it with the actual names';
  }
  const address = URL.parse(url);
  const isFull = address !== null && address.hostname !== '';
  return isFull ? address : 'is relative to its own host, which is unknown';
}

function createEndpointFacts(name: string, url: string, address: URL): EndpointFacts {
  const place = toHostProperties(getWrittenHost(url, address));
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

/** Yields the paths and operations that define their own servers. */
function* findPlacesWithServers(document: Record<string, unknown>): Generator<string> {
  for (const [path, written] of Object.entries(toMapping(document['paths']))) {
    const item = toMapping(written);
    if (toList(item['servers']).length > 0) yield `the path ${path}`;
    for (const [method, operation] of Object.entries(item)) {
      if (toList(toMapping(operation)['servers']).length > 0)
        yield `${method.toUpperCase()} ${path}`;
    }
  }
}

function* serversOf(
  document: Record<string, unknown>,
): Generator<{ url: string; description?: string | undefined }> {
  const host = toText(document['host']);
  if (host !== undefined) {
    const path = toText(document['basePath']) ?? '';
    const schemes = toList(document['schemes']).filter((scheme) => typeof scheme === 'string');
    for (const scheme of schemes.length === 0 ? ['https'] : schemes) {
      yield { url: `${scheme}://${host}${path}` };
    }
    return;
  }
  for (const entry of toList(document['servers'])) {
    const server = toMapping(entry);
    const url = insertDefaults(toText(server['url']) ?? '', toMapping(server['variables']));
    yield { url, description: toText(server['description']) };
  }
}

/** Replaces variables by their defaults, up to the length limit of a URL. */
function insertDefaults(url: string, variables: Record<string, unknown>): string {
  let result = '';
  let index = 0;
  for (const { 0: whole, 1: variable = '', index: at } of url.matchAll(/\{([^{}]+)\}/g)) {
    const value = toText(toMapping(variables[variable])['default']) ?? whole;
    result += url.slice(index, at) + value.slice(0, MAX_URL_CHARACTERS + 1);
    if (result.length > MAX_URL_CHARACTERS) return result;
    index = at + whole.length;
  }
  return result + url.slice(index);
}

const METHOD = /^(?:get|put|post|delete|options|head|patch|trace|query)$/;

/**
 * Describes the security of the document and of operations with different requirements. Ignores unused schemes.
 * https://spec.openapis.org/oas/v3.1.1.html#security-requirement-object
 */
function createSecurityNotes(document: Record<string, unknown>): SiteNotes {
  const schemes = {
    ...toMapping(toMapping(document['components'])['securitySchemes']),
    ...toMapping(document['securityDefinitions']),
  };
  const required = new Set<string>();
  const nameOf = (name: string) => {
    const { type, scheme } = toMapping(schemes[name]);
    return [toText(type), toText(scheme)].filter(Boolean).join(' ') || name;
  };
  /** Formats alternative requirements. An empty requirement makes the others optional. */
  const wayOf = (security: unknown) => {
    const alternatives = toList(security).map((requirement) => Object.keys(toMapping(requirement)));
    for (const name of alternatives.flat()) required.add(name);
    const words = alternatives
      .filter((names) => names.length > 0)
      .map((names) => formatShortList(names.map(nameOf), ' and '));
    return { way: formatShortList(words, ' or '), isOptional: words.length < alternatives.length };
  };
  const notes = new SiteNotes();
  const whole = wayOf(document['security']);
  if (whole.way !== '' && whole.isOptional) notes.note(`Optional: ${whole.way}.`);
  else if (whole.way !== '') notes.addRequirement(whole.way);
  for (const [path, item] of Object.entries(toMapping(document['paths']))) {
    for (const [method, operation] of Object.entries(toMapping(item))) {
      const { security } = toMapping(operation);
      if (!METHOD.test(method) || !Array.isArray(security)) continue;
      const place = `${method.toUpperCase()} ${path}`;
      const { way, isOptional } = wayOf(security);
      if (way === '' || isOptional) notes.addOpenPart(place);
      else if (way !== whole.way || whole.isOptional) notes.addRequirement(way, place);
    }
  }
  const unused = Object.keys(schemes).filter((name) => !required.has(name));
  if (unused.length > 0)
    notes.note(`Defined but not required: ${formatShortList(unused.map(nameOf), '; ')}.`);
  return notes;
}
