import { quoted } from '../shorten.ts';
import type { Found, Import } from './draft.ts';
import { list, mapping, parseMapping, text } from './yaml.ts';

/** The servers of an OpenAPI document (3.x `servers`; 2.0 `schemes`, `host` and `basePath`). */
export function importOpenApi(source: string): Import {
  const document = parseMapping(source);
  const info = mapping(document['info']);
  const name = text(info['title']) ?? 'API';
  const description = text(info['summary']) ?? text(info['description']);
  const leftOut: string[] = [];
  const found = serversOf(document).flatMap((server): Found[] => {
    const url = URL.parse(server.url);
    if (url === null || url.hostname === '') {
      leftOut.push(`the server ${quoted(server.url)} says only where it is on its own host`);
      return [];
    }
    return [
      {
        key: [name, url.hostname, ...(url.port === '' ? [] : [url.port])],
        name,
        type: 'http',
        url: server.url,
        protocol: url.protocol.slice(0, -1),
        port: url.port === '' ? undefined : Number(url.port),
        domain: url.hostname,
        purpose: firstLine(description),
        auth: authOf(document),
        docs: text(mapping(document['externalDocs'])['url']),
        notes: server.description,
      },
    ];
  });
  return { found, leftOut };
}

type Server = { url: string; description: string | undefined };

function serversOf(document: Record<string, unknown>): Server[] {
  const host = text(document['host']);
  if (host !== undefined) {
    const path = text(document['basePath']) ?? '';
    const schemes = list(document['schemes']).filter((scheme) => typeof scheme === 'string');
    return (schemes.length === 0 ? ['https'] : schemes).map((scheme) => ({
      url: `${scheme}://${host}${path}`,
      description: undefined,
    }));
  }
  return list(document['servers']).map((entry) => {
    const server = mapping(entry);
    const variables = mapping(server['variables']);
    const url = (text(server['url']) ?? '').replaceAll(
      /\{([^}]+)\}/g,
      (whole, variable: string) => {
        return text(mapping(variables[variable])['default']) ?? whole;
      },
    );
    return { url, description: text(server['description']) };
  });
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
  return [...new Set(ways)].join('; ');
}

function firstLine(description: string | undefined): string | undefined {
  return description?.split('\n', 1)[0]?.trim();
}
