import {
  type Document,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  parseDocument,
  visit,
  type YAMLParseError,
} from 'yaml';
import { JsonTextError, parseJsonText } from '../lint/json-text.ts';
import { MAX_IMPORT_DEPTH, MAX_YAML_ALIAS_REPEATS, MAX_YAML_ALIASES } from '../limits.ts';
import { quoted, shorten } from '../shorten.ts';
import { ImportError, TOO_DEEP } from './draft.ts';
import { checkYamlText } from './yaml-text.ts';

const TOO_MUCH_REPEATED =
  'its aliases stand for too much; write out what they repeat, or import a part of it';

/**
 * What a YAML or JSON text (YAML 1.2) holds; a mapping at its top. Size, depth and aliases are bounded.
 * @param maxBytes How many bytes of YAML are read; JSON is bounded by its file.
 * @throws ImportError
 */
export function parseMapping(source: string, maxBytes: number): Record<string, unknown> {
  const json = parseJson(source);
  if (!(json instanceof JsonTextError)) return mapping(json);
  if (isLikeJson(source) && Buffer.byteLength(source) > maxBytes) {
    throw new ImportError(json.message, { cause: json });
  }
  checkYamlText(source, maxBytes);
  // That keys are unique is looked at below: the parser compares each with all before it. Pretty errors would
  // copy the line of each: one is told.
  const document = parseDocument(source, { uniqueKeys: false, merge: true, prettyErrors: false });
  const [error] = document.errors;
  if (error?.code === 'RESOURCE_EXHAUSTION') throw new ImportError(TOO_DEEP);
  if (error?.code === 'MULTIPLE_DOCS') {
    throw new ImportError('it holds several documents; import each by itself');
  }
  if (error !== undefined) throw new ImportError(syntaxMessage(error, source), { cause: error });
  if (!isMap(document.contents)) {
    throw new ImportError(
      `a mapping is expected at the top, and there is ${kindOf(document.contents)}; name a file of the kind that --from says`,
    );
  }
  check(document, source);
  return mapping(valuesOf(document));
}

/** What the parser says, in the form of all other messages. */
function syntaxMessage({ message, pos }: YAMLParseError, source: string): string {
  return `line ${lineAt(source, pos[0])}: ${message}; correct it, or give a file of YAML or JSON`;
}

function lineAt(source: string, index: number): number {
  return source.slice(0, index).split('\n').length;
}

function kindOf(contents: unknown): string {
  if (isSeq(contents)) return 'a list';
  return isScalar(contents) ? 'a single value' : 'nothing';
}

/** JSON is YAML as well, and is read much faster by itself; an error for what is none. */
function parseJson(source: string): unknown {
  if (!isLikeJson(source)) return new JsonTextError('a mapping of JSON begins with {');
  try {
    return parseJsonText(source);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    if (error.isTooDeep) throw new ImportError(TOO_DEEP, { cause: error });
    return error;
  }
}

function isLikeJson(source: string): boolean {
  return /^\s*\{/.test(source);
}

/** @throws ImportError for repeated keys, and what is beyond a limit. */
function check(document: Document.Parsed, source: string): void {
  let aliases = 0;
  visit(document, {
    Seq: (_, _node, path) => checkDepth(path),
    Alias() {
      aliases += 1;
      if (aliases <= MAX_YAML_ALIASES) return;
      throw new ImportError(
        `it has more than ${MAX_YAML_ALIASES} aliases; write out what they repeat, or import a part of it`,
      );
    },
    Map(_, { items }, path) {
      checkDepth(path);
      const keys = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key) || key.value === '<<') continue;
        if (!keys.has(key.value)) keys.add(key.value);
        else {
          const line = lineAt(source, key.range?.[0] ?? 0);
          throw new ImportError(
            `line ${line}: the key ${quoted(String(key.value))} is already in this mapping; remove one`,
          );
        }
      }
    },
  });
}

/** @param path What is around a list or mapping. */
function checkDepth(path: readonly unknown[]): void {
  // Most are not deep, and need no counting.
  if (path.length < MAX_IMPORT_DEPTH) return;
  if (path.filter(isCollection).length >= MAX_IMPORT_DEPTH) throw new ImportError(TOO_DEEP);
}

/** What aliases stand for is known only now, and so is what is wrong with them. */
function valuesOf(document: Document.Parsed): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_YAML_ALIAS_REPEATS });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw new ImportError(aliasMessage(error.message), { cause: error });
  }
}

/** The parser knows no place here, only the name. */
function aliasMessage(message: string): string {
  if (message.startsWith('Excessive alias count')) return TOO_MUCH_REPEATED;
  const [, name] = /^Unresolved alias .*: (.*)$/s.exec(message) ?? [];
  if (name === undefined) return `${message}; correct it`;
  return `the alias ${quoted(`*${name}`)} stands for nothing; write &${shorten(name)} before it, at the value that it repeats`;
}

/** A mapping, or an empty one where there is something else. */
export function mapping(value: unknown): Record<string, unknown> {
  const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isMapping ? Object.assign(Object.create(null), value) : {};
}

/** A list, or an empty one where there is something else. */
export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A text, or a number as a text; undefined where there is something else or nothing but spaces. */
export function text(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined;
}
