import { getWrittenHost, toHostProperties } from '../address.ts';
import { MAX_URL_CHARACTERS, MAX_YAML_BYTES } from '../limits.ts';
import { quoteText, shorten } from '../text.ts';
import { formatShortList, ImportResult, SiteNotes } from './draft.ts';
import { parseMapping, toList, toMapping, toText } from './source.ts';

type Mapping = Record<string, unknown>;

/** Imports the servers of an OpenAPI document (3.x `servers`; 2.0 `schemes`, `host` and `basePath`). */
export function importOpenApi(source: string): ImportResult {
  const document = parseMapping(source, MAX_YAML_BYTES);
  const info = toMapping(document['info']);
  const name = toText(info['title']) ?? 'API';
  const summary = toText(info['summary']) ?? toText(info['description']);
  const security = createSecurityNotes(document);
  const securityText = security.describeNotes();
  const result = new ImportResult();
  for (const { url, description = '' } of listServers(document)) {
    const address = parseServerUrl(url);
    if (typeof address === 'string') {
      result.skip(() => `the server ${quoteText(url)} ${address}`);
      continue;
    }
    const { protocol, port } = address;
    const hostProperties = toHostProperties(getWrittenHost(url, address));
    const { host, domain = '' } = hostProperties;
    const punctuation =
      securityText === '' || description === '' || /[.!?]$/.test(description) ? '' : '.';
    result.add({
      key: [name, host ?? domain, ...(port === '' ? [] : [port])],
      name,
      type: 'http',
      ...hostProperties,
      url,
      protocol: protocol.slice(0, -1),
      port: port === '' ? undefined : Number(port),
      purpose: summary?.split('\n', 1)[0]?.trim(),
      auth: security.describeAuth(),
      docs: toText(toMapping(document['externalDocs'])['url']),
      notes: [description + punctuation, securityText].filter(Boolean).join(' '),
    });
  }
  const skipServers = (ownerName: string, owner: unknown) => {
    if (toList(toMapping(owner)['servers']).length === 0) return;
    result.skip(() => `${shorten(ownerName)} has its own servers; add those that differ`);
  };
  for (const [path, item] of Object.entries(toMapping(document['paths']))) {
    skipServers(`the path ${path}`, item);
    for (const [method, operation] of Object.entries(toMapping(item))) {
      skipServers(`${method.toUpperCase()} ${path}`, operation);
    }
  }
  return result;
}

/** Parses a server URL. Returns a reason if the URL is unusable. */
function parseServerUrl(url: string): URL | string {
  if (url.length > MAX_URL_CHARACTERS) return `is longer than ${MAX_URL_CHARACTERS} characters`;
  if (/^(?:[{}]|[^/]*\/\/[^/?#]*[{}])/.test(url)) {
    return 'has a variable without a default in its host; add it with the actual names';
  }
  const address = URL.parse(url);
  const isFull = address !== null && address.hostname !== '';
  return isFull ? address : 'is relative to its own host, which is unknown';
}

function* listServers(
  document: Mapping,
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

/** Replaces variables with their defaults, up to the length limit of a URL. */
function insertDefaults(url: string, variables: Mapping): string {
  let result = '';
  let index = 0;
  for (const { 0: placeholder, 1: variable = '', index: placeholderIndex } of url.matchAll(
    /\{([^{}]+)\}/g,
  )) {
    const value = toText(toMapping(variables[variable])['default']) ?? placeholder;
    result += url.slice(index, placeholderIndex) + value.slice(0, MAX_URL_CHARACTERS + 1);
    if (result.length > MAX_URL_CHARACTERS) return result;
    index = placeholderIndex + placeholder.length;
  }
  return result + url.slice(index);
}

const METHOD_PATTERN = /^(?:get|put|post|delete|options|head|patch|trace|query)$/;

/**
 * Describes the security of the document and of operations with different requirements. Lists unused schemes in a note.
 * https://spec.openapis.org/oas/v3.1.1.html#security-requirement-object
 */
function createSecurityNotes(document: Mapping): SiteNotes {
  const schemes = {
    ...toMapping(toMapping(document['components'])['securitySchemes']),
    ...toMapping(document['securityDefinitions']),
  };
  const requiredSchemes = new Set<string>();
  const formatSchemeName = (name: string) => {
    const { type, scheme } = toMapping(schemes[name]);
    return [toText(type), toText(scheme)].filter(Boolean).join(' ') || name;
  };
  /** Formats alternative requirements. An empty requirement makes the others optional. */
  const formatRequirement = (security: unknown) => {
    const alternatives = toList(security).map((requirement) => Object.keys(toMapping(requirement)));
    for (const name of alternatives.flat()) requiredSchemes.add(name);
    const requirements = alternatives
      .filter((names) => names.length > 0)
      .map((names) => formatShortList(names.map(formatSchemeName), ' and '));
    return {
      authMethod: formatShortList(requirements, ' or '),
      isOptional: requirements.length < alternatives.length,
    };
  };
  const notes = new SiteNotes();
  const defaultRequirement = formatRequirement(document['security']);
  if (defaultRequirement.authMethod !== '' && defaultRequirement.isOptional)
    notes.addNote(`Optional: ${defaultRequirement.authMethod}.`);
  else if (defaultRequirement.authMethod !== '')
    notes.addRequirement(defaultRequirement.authMethod);
  for (const [path, item] of Object.entries(toMapping(document['paths']))) {
    for (const [method, operation] of Object.entries(toMapping(item))) {
      const { security } = toMapping(operation);
      if (!METHOD_PATTERN.test(method) || !Array.isArray(security)) continue;
      const operationName = `${method.toUpperCase()} ${path}`;
      const { authMethod, isOptional } = formatRequirement(security);
      if (authMethod === '' || isOptional) notes.addOpenPart(operationName);
      else if (authMethod !== defaultRequirement.authMethod || defaultRequirement.isOptional)
        notes.addRequirement(authMethod, operationName);
    }
  }
  const unusedNames = Object.keys(schemes).filter((name) => !requiredSchemes.has(name));
  const unusedSchemes = formatShortList(unusedNames.map(formatSchemeName), '; ');
  if (unusedNames.length > 0) notes.addNote(`Defined but not required: ${unusedSchemes}.`);
  return notes;
}
