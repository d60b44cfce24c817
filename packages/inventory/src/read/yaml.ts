import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  parseDocument,
  type Scalar,
  visit,
  type YAMLMap,
} from 'yaml';
import type { FindingCode, Position } from '../finding.ts';
import type { JsonPath, LocatedValue, OffsetPosition } from '../json/parser.ts';
import type { ScanEvent } from '../json/scanners.ts';
import {
  MAX_IMPORT_DEPTH,
  MAX_YAML_ALIAS_REPEATS,
  MAX_YAML_ALIASES,
  MAX_YAML_BYTES,
  MIN_YAML_TOKEN_BYTES,
} from '../limits.ts';
import { getExcerpt, quoteText, shorten } from '../text.ts';

/** Message for blocks and values that are nested too deep. */
export const TOO_DEEP_MESSAGE = `it is nested more than ${MAX_IMPORT_DEPTH} levels deep; flatten it, or use only a part of it`;

/** Thrown for invalid YAML. The one-line message names the error and its remedy. */
export class YamlError extends Error {
  override name = 'YamlError';
  /** Offset of the error. Undefined for text that exceeds a limit. */
  readonly offset: number | undefined;

  constructor(message: string, { offset, cause }: { offset?: number; cause?: unknown } = {}) {
    super(message, { cause });
    this.offset = offset;
  }
}

/**
 * Parses YAML 1.2 text with one document.
 * @param maxBytes Maximum size of the text.
 * @throws YamlError for invalid YAML, and for text that exceeds a limit.
 */
export function parseYaml(source: string, maxBytes: number): Document.Parsed {
  checkSize(source, maxBytes);
  // The check for unique keys takes quadratic time, and pretty errors copy the line of each error.
  const document = parseDocument(source, { uniqueKeys: false, merge: true, prettyErrors: false });
  const [error] = document.errors;
  if (error === undefined) return document;
  if (error.code === 'RESOURCE_EXHAUSTION') throw new YamlError(TOO_DEEP_MESSAGE);
  const message =
    error.code === 'MULTIPLE_DOCS'
      ? 'it contains several documents; put each into a separate file'
      : `${error.message}; correct it, or use a file of YAML or JSON`;
  throw new YamlError(message, { offset: error.pos[0], cause: error });
}

function throwLimitError(limit: string): never {
  throw new YamlError(`YAML of this kind is limited to ${limit}; convert it to JSON, or split it`);
}

/** Rejects YAML that is too large, deep or dense before the parser builds its tree. */
function checkSize(source: string, maxBytes: number): void {
  if (Buffer.byteLength(source) > maxBytes) {
    const kibibytes = maxBytes / 1024;
    throwLimitError(kibibytes < 1024 ? `${kibibytes} KiB` : `${kibibytes / 1024} MiB`);
  }
  const maxTokens = maxBytes / MIN_YAML_TOKEN_BYTES;
  let tokenCount = 0;
  let bracketDepth = 0;
  // In block style, one line may open several lists, as in "- - a".
  let lineIndicatorCount = 0;
  for (const token of new Lexer().lex(source)) {
    tokenCount += 1;
    if (tokenCount > maxTokens) throwLimitError(`${maxTokens} words, marks and spaces`);
    if (token === '[' || token === '{') bracketDepth += 1;
    else if (token === ']' || token === '}') bracketDepth = Math.max(0, bracketDepth - 1);
    else if (token.endsWith('\n')) lineIndicatorCount = 0;
    else if (bracketDepth === 0 && /^[-?:]$/.test(token)) lineIndicatorCount += 1;
    if (bracketDepth + lineIndicatorCount > MAX_IMPORT_DEPTH) throw new YamlError(TOO_DEEP_MESSAGE);
  }
}

type RepeatedKey = { key: Scalar; firstKey: Scalar; path: JsonPath };

/**
 * Yields the repeated keys of a node, and enforces the limits on depth and aliases.
 * @param counts Alias count, shared by all nodes of a document.
 * @throws YamlError
 */
export function* findRepeatedKeys(
  node: unknown,
  counts = { aliases: 0 },
  path: JsonPath = null,
  depth = 0,
): Generator<RepeatedKey> {
  if (isAlias(node)) {
    counts.aliases += 1;
    if (counts.aliases > MAX_YAML_ALIASES) {
      const message = `it has more than ${MAX_YAML_ALIASES} aliases; write out the values, or use only a part of it`;
      throw new YamlError(message);
    }
  }
  if (!isMap(node) && !isSeq(node)) return;
  if (depth >= MAX_IMPORT_DEPTH) throw new YamlError(TOO_DEEP_MESSAGE);
  if (isSeq(node)) {
    for (const [key, child] of node.items.entries()) {
      yield* findRepeatedKeys(child, counts, { parent: path, key }, depth + 1);
    }
    return;
  }
  const firstKeys = new Map<unknown, Scalar>();
  for (const { key, value } of node.items) {
    const keyPath: JsonPath = { parent: path, key: isScalar(key) ? String(key.value) : '' };
    if (!isScalar(key)) yield* findRepeatedKeys(key, counts, keyPath, depth + 1);
    else if (key.value !== '<<') {
      const firstKey = firstKeys.get(key.value);
      if (firstKey === undefined) firstKeys.set(key.value, key);
      else yield { key, firstKey, path: keyPath };
    }
    yield* findRepeatedKeys(value, counts, keyPath, depth + 1);
  }
}

/**
 * Returns the value of a document, with aliases resolved.
 * @throws YamlError for aliases without an anchor, for excessive alias expansion, and for other unresolvable values.
 */
export function getDocumentValue(document: Document.Parsed): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_YAML_ALIAS_REPEATS });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    if (error.message.startsWith('Excessive alias count')) {
      const message = 'its aliases expand too far; write out the values, or use only a part of it';
      throw new YamlError(message, { cause: error });
    }
    const [, name] = /^Unresolved alias .*: (.*)$/s.exec(error.message) ?? [];
    if (name === undefined) throw new YamlError(`${error.message}; correct it`, { cause: error });
    let offset = 0;
    visit(document, {
      Alias(_, node) {
        if (node.source !== name) return undefined;
        offset = getStartOffset(node);
        return visit.BREAK;
      },
    });
    const message = `the alias ${quoteText(`*${name}`)} has no anchor; write &${shorten(name)} before the value that it repeats`;
    throw new YamlError(message, { offset, cause: error });
  }
}

/** Parsed YAML record. `locate` computes the positions of its members. */
export type LocatedRecord = {
  value: unknown;
  hasRepeatedKeys: boolean;
  text: string;
  start: Position;
  locate: () => LocatedValue;
};

/** Reads a YAML list of records. Holds the text in memory, up to a limit. */
export class YamlScanner {
  readonly unit = 'file';
  #bytes: Buffer[] = [];
  #size = 0;

  getPosition(): Position {
    const text = Buffer.concat(this.#bytes).toString();
    const { line, column } = createPositionIndex(text)(text.length);
    return { line, column };
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#size += bytes.length;
    // The source may reuse its buffer.
    if (this.#size <= MAX_YAML_BYTES) this.#bytes.push(Buffer.from(bytes));
    else {
      const limit = MAX_YAML_BYTES / 1024 / 1024;
      const message = `YAML is limited to ${limit} MiB; convert it to JSON, or split it`;
      const position = { line: 1, column: 1 };
      yield { kind: 'problem', problem: { code: 'limit/yaml', message, position }, index: 0 };
    }
  }

  *end(): Generator<ScanEvent | { kind: 'located'; value: LocatedRecord }> {
    const text = Buffer.concat(this.#bytes).toString();
    this.#bytes = [];
    const getPosition = createPositionIndex(text);
    const createProblem = (offset: number, code: FindingCode, message: string): ScanEvent => {
      const { line, column } = getPosition(offset);
      const location = { position: { line, column }, excerpt: getExcerpt(text, offset) };
      return { kind: 'problem', problem: { code, message, ...location }, index: 0 };
    };
    try {
      const document = parseYaml(text, MAX_YAML_BYTES);
      const { contents } = document;
      if (isSeq(contents)) {
        for (const record of readRecords(document, contents.items, getPosition)) {
          yield { kind: 'located', value: { ...record, text } };
        }
      } else if (contents === null || (isScalar(contents) && contents.value === null)) {
        const message = 'the file is empty; an inventory without records is []';
        yield createProblem(getStartOffset(contents), 'json/empty', message);
      } else {
        const message = 'an inventory must be a list of records; begin each record with "- "';
        yield createProblem(getStartOffset(contents), 'schema/type', message);
      }
    } catch (error) {
      if (!(error instanceof YamlError)) throw error;
      const { offset, message } = error;
      yield createProblem(
        offset ?? 0,
        offset === undefined ? 'limit/yaml' : 'yaml/syntax',
        message,
      );
    }
  }
}

type PositionIndex = (offset: number) => OffsetPosition;

/** Creates a function that computes the position of a UTF-16 code unit. Ascending offsets are fastest. */
function createPositionIndex(text: string): PositionIndex {
  let lastPosition = { offset: 0, line: 1, column: 1 };
  return (offset) => {
    let { offset: current, line, column } = lastPosition;
    if (offset < current) [current, line, column] = [0, 1, 1];
    for (; current < offset; current += 1) {
      const unit = text.charCodeAt(current);
      if (unit === 0x0a) [line, column] = [line + 1, 1];
      // A low surrogate belongs to the same column.
      else if (unit < 0xdc00 || unit > 0xdfff) column += 1;
    }
    lastPosition = { offset, line, column };
    return lastPosition;
  };
}

function* readRecords(
  document: Document.Parsed,
  items: readonly unknown[],
  getPosition: PositionIndex,
): Generator<Omit<LocatedRecord, 'text'>> {
  const counts = { aliases: 0 };
  const repeatedKeysByNode = new Map<unknown, RepeatedKey[]>(
    items.map((node) => [node, [...findRepeatedKeys(node, counts, null, 1)]]),
  );
  const values = getDocumentValue(document);
  for (const [index, node] of items.entries()) {
    const value: unknown = Array.isArray(values) ? values[index] : undefined;
    const record = isAlias(node) ? node.resolve(document) : node;
    const start = getPosition(getStartOffset(node));
    const repeatedKeys = repeatedKeysByNode.get(record) ?? [];
    const locate = (): LocatedValue => ({
      start,
      members: isMap(record) ? locateMembers(record, getPosition) : new Map(),
      duplicates: repeatedKeys.map(({ key, firstKey, path }) => ({
        key: String(key.value),
        path,
        firstPosition: getPosition(getStartOffset(firstKey)),
        repeatedPosition: getPosition(getStartOffset(key)),
      })),
    });
    yield { value, hasRepeatedKeys: repeatedKeys.length > 0, start, locate };
  }
}

function getStartOffset(node: unknown): number {
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}

function locateMembers({ items }: YAMLMap, getPosition: PositionIndex): LocatedValue['members'] {
  const members: LocatedValue['members'] = new Map();
  for (const { key, value } of items) {
    if (!isScalar(key)) continue;
    const keyPosition = getPosition(getStartOffset(key));
    const name = String(key.value);
    const node = isNode(value) ? value : key;
    members.set(name, {
      key: members.get(name)?.key ?? keyPosition,
      start: getPosition(getStartOffset(node)),
      end: node.range?.[1] ?? keyPosition.offset,
    });
  }
  return members;
}
