import { isAlias, isMap, isNode, isPair, isScalar, isSeq, type Scalar, type YAMLMap } from 'yaml';
import { excerptAt } from '../excerpt.ts';
import type { Position, Problem } from '../finding.ts';
import type { DuplicateKey, LocatedValue } from '../json/located-value.ts';
import type { LocatedEvent, ScanEvent, Scanner } from '../json/scan-event.ts';
import { MAX_REPEATED_KEYS, MAX_YAML_BYTES } from '../limits.ts';
import { parseYaml, valuesOf } from './document.ts';
import { TextPlaces } from './text-places.ts';
import { YamlError } from './yaml-error.ts';

/** A key that its mapping already has, and the keys and indices that lead to it from the record. */
type RepeatedKey = { key: Scalar; first: Scalar; path: (string | number)[] };

/** Reads a list of records in YAML, as a whole: its text is bounded, and given to a parser. */
export class YamlScanner implements Scanner {
  readonly what = 'file';
  #bytes: Buffer[] = [];
  #size = 0;

  position(): Position {
    const text = Buffer.concat(this.#bytes).toString();
    return new TextPlaces(text).at(text.length);
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#size += bytes.length;
    // The source may use its buffer again.
    if (this.#size <= MAX_YAML_BYTES) this.#bytes.push(Buffer.from(bytes));
    else {
      const limit = MAX_YAML_BYTES / 1024 / 1024;
      const message = `YAML is read up to ${limit} MiB, and this is more; give it as JSON, or in parts`;
      const position = { line: 1, column: 1 };
      yield { kind: 'problem', problem: { code: 'limit/yaml', message, position }, index: 0 };
    }
  }

  *end(): Generator<ScanEvent | LocatedEvent> {
    const text = Buffer.concat(this.#bytes).toString();
    this.#bytes = [];
    const places = new TextPlaces(text);
    try {
      yield* recordsIn(text, places);
    } catch (error) {
      if (!(error instanceof YamlError)) throw error;
      const { offset, message } = error;
      const code = offset === undefined ? 'limit/yaml' : 'yaml/syntax';
      yield problemAt(offset ?? 0, { code, message }, text, places);
    }
  }
}

function problemAt(
  offset: number,
  problem: Pick<Problem, 'code' | 'message'>,
  text: string,
  places: TextPlaces,
): ScanEvent {
  const place = { position: places.at(offset), excerpt: excerptAt(text, offset) };
  return { kind: 'problem', problem: { ...problem, ...place }, index: 0 };
}

function* recordsIn(text: string, places: TextPlaces): Generator<ScanEvent | LocatedEvent> {
  const repeated = new Map<unknown, RepeatedKey[]>();
  const document = parseYaml(text, MAX_YAML_BYTES, (key, first, path) => {
    // The document, the list, and then the record.
    const [, list, record] = path;
    if (!isSeq(list)) return;
    const entries = repeated.get(record) ?? [];
    entries.push({ key, first, path: [...keysOf(path.slice(3)), String(key.value)] });
    repeated.set(record, entries);
  });
  const { contents } = document;
  if (!isSeq(contents)) {
    const isEmpty = contents === null || (isScalar(contents) && contents.value === null);
    const problem = isEmpty
      ? {
          code: 'json/empty' as const,
          message: 'the file is empty; an inventory without records is []',
        }
      : {
          code: 'schema/type' as const,
          message: 'an inventory must be a list of records; begin each record with "- "',
        };
    yield problemAt(startOf(contents), problem, text, places);
    return;
  }
  const values: unknown = valuesOf(document);
  for (const [index, item] of contents.items.entries()) {
    const value: unknown = Array.isArray(values) ? values[index] : undefined;
    const record = isAlias(item) ? item.resolve(document) : item;
    const start = places.mark(startOf(item));
    const again = repeated.get(record) ?? [];
    yield {
      kind: 'located',
      value: {
        value,
        isRepeating: again.length > 0,
        text,
        start,
        locate: () => ({
          start,
          members: isMap(record) ? membersOf(record, places) : new Map(),
          ...repeatedIn(again, places),
        }),
      },
    };
  }
}

function startOf(node: unknown): number {
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}

function membersOf({ items }: YAMLMap, places: TextPlaces): LocatedValue['members'] {
  const members: LocatedValue['members'] = new Map();
  for (const { key, value } of items) {
    if (!isScalar(key)) continue;
    const mark = places.mark(startOf(key));
    const name = String(key.value);
    // Of equal keys the first place of the key is told, and the last value.
    const first = members.get(name)?.key ?? mark;
    const node = isNode(value) ? value : key;
    const end = node.range?.[1] ?? mark.offset;
    members.set(name, { key: first, start: places.mark(startOf(node)), end });
  }
  return members;
}

function repeatedIn(again: readonly RepeatedKey[], places: TextPlaces) {
  const duplicates = again
    .slice(0, MAX_REPEATED_KEYS)
    .map(({ key, first, path }): DuplicateKey => ({
      key: String(key.value),
      path,
      first: places.mark(startOf(first)),
      again: places.mark(startOf(key)),
    }));
  const [more] = again.slice(MAX_REPEATED_KEYS);
  const moreDuplicates = more && {
    count: again.length - MAX_REPEATED_KEYS,
    first: places.mark(startOf(more.key)),
  };
  return { duplicates, moreDuplicates: moreDuplicates ?? null };
}

/** The keys and indices on a path of nodes within a record. */
function keysOf(path: readonly unknown[]): (string | number)[] {
  return path.flatMap((node, nth): (string | number)[] => {
    if (isPair(node)) return isScalar(node.key) ? [String(node.key.value)] : [];
    return isSeq(node) ? [node.items.indexOf(path[nth + 1])] : [];
  });
}
