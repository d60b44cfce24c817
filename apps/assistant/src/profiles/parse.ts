import type { TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument } from 'yaml';
import { type Profile, profileSchema } from './profile.ts';

/** What is wrong with a profile file, and in which of its lines, counted from 1. */
export type Fault = { line: number; rule: string };

/** A profile with the line of its id; or everything that is wrong with the file. */
type Parsed = { profile: Profile; idLine: number } | { faults: readonly Fault[] };

const FIELDS = Object.entries<TSchema & { description?: string }>(profileSchema.properties);
const NAMES = FIELDS.map(([name]) => name);
const REQUIRED: ReadonlySet<string> = new Set(profileSchema.required);

/** Reads the text of a profile file. Contract 3, Profiles. */
export function parseProfile(text: string): Parsed {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    // What it would warn of on the console is told as a fault.
    logLevel: 'error',
  });
  const faultAt = (offset: number, rule: string): Fault => ({
    // There is no line zero, not even where there is nothing at all.
    line: Math.max(1, lines.linePos(offset).line),
    rule,
  });
  const malformed = [...document.errors, ...document.warnings];
  if (malformed.length > 0) {
    return { faults: malformed.map(({ pos, message }) => faultAt(pos[0], message)) };
  }
  const content = readContent(document);
  if ('fault' in content) return { faults: [faultAt(0, content.fault)] };

  const { value } = content;
  const faults = [
    ...unknownMembers(document).map(([offset, rule]) => faultAt(offset, rule)),
    ...badMembers(value).map(([path, rule]) => faultAt(offsetOf(document, path), rule)),
  ];
  if (!Value.Check(profileSchema, value)) return { faults };
  return {
    profile: { description: '', model: '', tools: [], is_admin_only: false, ...value },
    idLine: faultAt(offsetOf(document, ['profile_id']), '').line,
  };
}

function readContent(
  document: Document,
): { value: Readonly<Record<string, unknown>> } | { fault: string } {
  if (!isMap(document.contents)) return { fault: `must be a map with ${NAMES.join(', ')}` };
  try {
    // The document is a map, and its text has no other keys than texts.
    return { value: document.toJS() as Readonly<Record<string, unknown>> };
  } catch (error) {
    // An alias that stands for nothing, or for so much that it would fill the memory.
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}

function unknownMembers({ contents }: Document): [offset: number, rule: string][] {
  if (!isMap(contents)) return [];
  return contents.items
    .map(({ key }): [number, string] => [
      isNode(key) ? (key.range?.[0] ?? 0) : 0,
      isScalar(key) ? String(key.value) : 'a key that is no text',
    ])
    .filter(([, name]) => !NAMES.includes(name))
    .map(([offset, name]) => [offset, `${name} is unknown: a profile has ${NAMES.join(', ')}`]);
}

function badMembers(
  value: Readonly<Record<string, unknown>>,
): [path: readonly string[], rule: string][] {
  return FIELDS.flatMap(([name, field]): [string[], string][] => {
    if (!Object.hasOwn(value, name)) {
      return REQUIRED.has(name) ? [[[], `${name} is missing: it ${field.description}`]] : [];
    }
    const [error] = Value.Errors(field, value[name]);
    if (error === undefined) return [];
    const within = error.instancePath.split('/').slice(1);
    return [[[name, ...within], `${name} ${field.description}`]];
  });
}

/** Where in the text the value at a path begins. */
function offsetOf(document: Document, path: readonly string[]): number {
  const node = path.length === 0 ? document.contents : document.getIn(path, true);
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}
