import { hostIn } from '../host.ts';
import { MAX_URL_CHARACTERS, MAX_YAML_BYTES } from '../limits.ts';
import { quoted, shorten } from '../shorten.ts';
import { checkNumber, type Found, type Import, LeftOut } from './draft.ts';
import { securityOf } from './openapi-security.ts';
import { placeOf } from './place.ts';
import { list, mapping, parseMapping, text } from './yaml.ts';

/** The servers of an OpenAPI document (3.x `servers`; 2.0 `schemes`, `host` and `basePath`). */
export function importOpenApi(source: string): Import {
  const document = parseMapping(source, MAX_YAML_BYTES);
  const info = mapping(document['info']);
  const name = text(info['title']) ?? 'API';
  const security = securityOf(document);
  const about = {
    purpose: firstLine(text(info['summary']) ?? text(info['description'])),
    auth: security.auth,
    docs: text(mapping(document['externalDocs'])['url']),
  };
  const leftOut = new LeftOut();
  const found: Found[] = [];
  for (const { url, description } of serversOf(document)) {
    const address = readAddress(url);
    if (typeof address === 'string') {
      leftOut.add(() => `the server ${quoted(url)} ${address}`);
      continue;
    }
    found.push({
      ...toFound(name, url, address),
      ...about,
      notes: withSentences(description ?? '', security.notes),
    });
    checkNumber(found.length);
  }
  for (const place of placesWithServers(document)) {
    leftOut.add(() => `${shorten(place)} has servers of its own; add those that differ`);
  }
  return { found, leftOut };
}

/** The address of a server; a text that says why there is none. */
function readAddress(url: string): URL | string {
  if (url.length > MAX_URL_CHARACTERS) return `is longer than ${MAX_URL_CHARACTERS} characters`;
  // A browser takes braces for a part of a name.
  if (/^(?:[{}]|[^/]*\/\/[^/?#]*[{}])/.test(url)) {
    return 'has a variable without a default in its host; add it with the names that it stands for';
  }
  const address = URL.parse(url);
  const isFull = address !== null && address.hostname !== '';
  return isFull ? address : 'says only where it is on its own host';
}

function toFound(name: string, url: string, address: URL): Found {
  const { exposure, host, domain } = placeOf(hostIn(url, address));
  return {
    key: [name, host ?? domain ?? '', ...(address.port === '' ? [] : [address.port])],
    name,
    type: 'http',
    exposure,
    url,
    protocol: address.protocol.slice(0, -1),
    host,
    port: address.port === '' ? undefined : Number(address.port),
    domain,
  };
}

/** Paths and operations that are elsewhere than the document. */
function* placesWithServers(document: Record<string, unknown>): Generator<string> {
  for (const [path, written] of Object.entries(mapping(document['paths']))) {
    const item = mapping(written);
    if (list(item['servers']).length > 0) yield `the path ${path}`;
    for (const [method, operation] of Object.entries(item)) {
      if (list(mapping(operation)['servers']).length > 0) yield `${method.toUpperCase()} ${path}`;
    }
  }
}

type Server = { url: string; description: string | undefined };

function* serversOf(document: Record<string, unknown>): Generator<Server> {
  const host = text(document['host']);
  if (host !== undefined) {
    const path = text(document['basePath']) ?? '';
    const schemes = list(document['schemes']).filter((scheme) => typeof scheme === 'string');
    for (const scheme of schemes.length === 0 ? ['https'] : schemes) {
      yield { url: `${scheme}://${host}${path}`, description: undefined };
    }
    return;
  }
  for (const entry of list(document['servers'])) {
    const server = mapping(entry);
    const url = withDefaults(text(server['url']) ?? '', mapping(server['variables']));
    yield { url, description: text(server['description']) };
  }
}

/** The address with the defaults of its variables, put in until it is longer than an address may be. */
function withDefaults(url: string, variables: Record<string, unknown>): string {
  let result = '';
  let index = 0;
  for (const match of url.matchAll(/\{([^{}]+)\}/g)) {
    const [whole, variable = ''] = match;
    const { default: given } = mapping(variables[variable]);
    const isLong = typeof given === 'string' && given.length > MAX_URL_CHARACTERS;
    result += url.slice(index, match.index) + (isLong ? given : (text(given) ?? whole));
    if (result.length > MAX_URL_CHARACTERS) return result;
    index = match.index + whole.length;
  }
  return result + url.slice(index);
}

function withSentences(description: string, sentences: string): string {
  if (description === '' || sentences === '') return description + sentences;
  return `${description}${/[.!?]$/.test(description) ? '' : '.'} ${sentences}`;
}

function firstLine(description: string | undefined): string | undefined {
  return description?.split('\n', 1)[0]?.trim();
}
