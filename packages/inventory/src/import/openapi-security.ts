import { listed, Site } from './site.ts';
import { list, mapping, text } from './yaml.ts';

/** What an API asks for: `auth` of all of it, and sentences on the rest. */
export type Security = { auth: string | undefined; notes: string };

/** One of the ways in: the words for it, none where anybody may come in. */
type Way = { words: string | undefined; isOptional: boolean };

const METHOD = /^(?:get|put|post|delete|options|head|patch|trace|query)$/;

/**
 * The security of an OpenAPI document. Schemes are what may be asked for, `security` is what is: of all operations at
 * the top, of one within it.
 * https://spec.openapis.org/oas/v3.1.1.html#security-requirement-object
 */
export function securityOf(document: Record<string, unknown>): Security {
  const schemes = {
    ...mapping(mapping(document['components'])['securitySchemes']),
    ...mapping(document['securityDefinitions']),
  };
  const asked = new Set<string>();
  const whole = wayIn(document['security'], schemes, asked);
  const site = new Site();
  if (whole.words !== undefined && !whole.isOptional) site.asksFor(whole.words);
  for (const [place, security] of operationsWithSecurity(document)) {
    const { words, isOptional } = wayIn(security, schemes, asked);
    if (words === undefined || isOptional) site.leavesOpen(place);
    else if (words !== whole.words || whole.isOptional) site.asksFor(words, place);
  }
  const optional = whole.isOptional && whole.words !== undefined ? `Optional: ${whole.words}.` : '';
  const others = Object.keys(schemes).filter((name) => !asked.has(name));
  const defined = new Set(others.map((name) => nameOf(name, schemes)));
  const rest =
    defined.size === 0 ? '' : `Defined, and asked for nowhere: ${listed(defined, '; ')}.`;
  return { auth: site.auth(), notes: [optional, site.notes(), rest].filter(Boolean).join(' ') };
}

/**
 * What a list of requirements asks for, of which one is enough.
 * @param asked Takes the names of the schemes.
 */
function wayIn(security: unknown, schemes: Record<string, unknown>, asked: Set<string>): Way {
  const ways = new Set<string>();
  let isOptional = false;
  for (const requirement of list(security)) {
    const names = Object.keys(mapping(requirement));
    for (const name of names) asked.add(name);
    if (names.length === 0) isOptional = true;
    else ways.add(listed(new Set(names.map((name) => nameOf(name, schemes))), ' and '));
  }
  return { words: ways.size === 0 ? undefined : listed(ways, ' or '), isOptional };
}

/** A scheme by its type, and by its name where it does not say that here. */
function nameOf(name: string, schemes: Record<string, unknown>): string {
  const { type, scheme } = mapping(schemes[name]);
  return [text(type), text(scheme)].filter(Boolean).join(' ') || name;
}

/** Operations that say something else than the document, each as METHOD PATH. */
function* operationsWithSecurity(
  document: Record<string, unknown>,
): Generator<[place: string, security: unknown]> {
  for (const [path, item] of Object.entries(mapping(document['paths']))) {
    for (const [method, operation] of Object.entries(mapping(item))) {
      const { security } = mapping(operation);
      if (METHOD.test(method) && Array.isArray(security)) {
        yield [`${method.toUpperCase()} ${path}`, security];
      }
    }
  }
}
