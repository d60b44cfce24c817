import { MAX_URL_CHARACTERS } from '../limits.ts';
import { quoted } from '../shorten.ts';
import { checkNumber, type Found, type Import, LeftOut } from './draft.ts';
import { listed } from './site.ts';
import { list, mapping, parseMapping, text } from './yaml.ts';

/** The servers of an OpenAPI document (3.x `servers`; 2.0 `schemes`, `host` and `basePath`). */
export function importOpenApi(source: string): Import {
  const document = parseMapping(source);
  const info = mapping(document['info']);
  const name = text(info['title']) ?? 'API';
  const about = {
    purpose: firstLine(text(info['summary']) ?? text(info['description'])),
    auth: authOf(document),
    docs: text(mapping(document['externalDocs'])['url']),
  };
  const leftOut = new LeftOut();
  const found: Found[] = [];
  for (const server of serversOf(document)) {
    if (server.url.length > MAX_URL_CHARACTERS) {
      leftOut.add(
        `the server ${quoted(server.url)} is longer than ${MAX_URL_CHARACTERS} characters`,
      );
      continue;
    }
    const url = URL.parse(server.url);
    if (url === null || url.hostname === '') {
      leftOut.add(`the server ${quoted(server.url)} says only where it is on its own host`);
      continue;
    }
    found.push({
      key: [name, url.hostname, ...(url.port === '' ? [] : [url.port])],
      name,
      type: 'http',
      url: server.url,
      protocol: url.protocol.slice(0, -1),
      port: url.port === '' ? undefined : Number(url.port),
      domain: url.hostname,
      ...about,
      notes: server.description,
    });
    checkNumber(found.length);
  }
  return { found, leftOut };
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

function authOf(document: Record<string, unknown>): string | undefined {
  const schemes = {
    ...mapping(mapping(document['components'])['securitySchemes']),
    ...mapping(document['securityDefinitions']),
  };
  const ways = Object.values(schemes).map((scheme) => {
    const { type, scheme: kind } = mapping(scheme);
    return [text(type), text(kind)].filter(Boolean).join(' ');
  });
  return listed(new Set(ways), '; ');
}

function firstLine(description: string | undefined): string | undefined {
  return description?.split('\n', 1)[0]?.trim();
}
