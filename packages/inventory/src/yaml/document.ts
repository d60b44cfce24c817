import {
  type Document,
  isCollection,
  isScalar,
  parseDocument,
  type Scalar,
  visit,
  type YAMLMap,
} from 'yaml';
import { MAX_IMPORT_DEPTH, MAX_YAML_ALIAS_REPEATS, MAX_YAML_ALIASES } from '../limits.ts';
import { quoted, shorten } from '../shorten.ts';
import { checkYamlText } from './yaml-text.ts';
import { TOO_DEEP, YamlError } from './yaml-error.ts';

const TOO_MUCH_REPEATED =
  'its aliases stand for too much; write out what they repeat, or give a part of it';

/**
 * Parses a YAML text (YAML 1.2) of one document. Size, depth and aliases are bounded.
 * @param maxBytes How many bytes are read.
 * @param onRepeated Is told of each key that its mapping already has.
 * @throws YamlError
 */
export function parseYaml(
  source: string,
  maxBytes: number,
  onRepeated: (key: Scalar, first: Scalar, path: readonly unknown[]) => void,
): Document.Parsed {
  checkYamlText(source, maxBytes);
  // That keys are unique is looked at below: the parser compares each with all before it. Pretty errors would
  // copy the line of each: one is told.
  const document = parseDocument(source, { uniqueKeys: false, merge: true, prettyErrors: false });
  const [error] = document.errors;
  if (error?.code === 'RESOURCE_EXHAUSTION') throw new YamlError(TOO_DEEP);
  if (error?.code === 'MULTIPLE_DOCS') {
    throw new YamlError('it holds several documents; give each by itself', {
      offset: error.pos[0],
    });
  }
  if (error !== undefined) {
    const message = `${error.message}; correct it, or give a file of YAML or JSON`;
    throw new YamlError(message, { offset: error.pos[0], cause: error });
  }
  let aliases = 0;
  visit(document, {
    Seq: (_, _node, path) => checkDepth(path),
    Alias() {
      aliases += 1;
      if (aliases <= MAX_YAML_ALIASES) return;
      throw new YamlError(
        `it has more than ${MAX_YAML_ALIASES} aliases; write out what they repeat, or give a part of it`,
      );
    },
    Map(_, node, path) {
      checkDepth(path);
      findRepeated(node, (key, first) => onRepeated(key, first, [...path, node]));
    },
  });
  return document;
}

function findRepeated({ items }: YAMLMap, onRepeated: (key: Scalar, first: Scalar) => void): void {
  const firsts = new Map<unknown, Scalar>();
  for (const { key } of items) {
    if (!isScalar(key) || key.value === '<<') continue;
    const first = firsts.get(key.value);
    if (first === undefined) firsts.set(key.value, key);
    else onRepeated(key, first);
  }
}

/** @param path What is around a list or mapping. */
function checkDepth(path: readonly unknown[]): void {
  // Most are not deep, and need no counting.
  if (path.length < MAX_IMPORT_DEPTH) return;
  if (path.filter(isCollection).length >= MAX_IMPORT_DEPTH) throw new YamlError(TOO_DEEP);
}

/**
 * The values of a document. What aliases stand for is known only now, and so is what is wrong with them.
 * @throws YamlError
 */
export function valuesOf(document: Document.Parsed): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_YAML_ALIAS_REPEATS });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    if (error.message.startsWith('Excessive alias count')) {
      throw new YamlError(TOO_MUCH_REPEATED, { cause: error });
    }
    const [, name] = /^Unresolved alias .*: (.*)$/s.exec(error.message) ?? [];
    if (name === undefined) throw new YamlError(`${error.message}; correct it`, { cause: error });
    const message = `the alias ${quoted(`*${name}`)} stands for nothing; write &${shorten(name)} before it, at the value that it repeats`;
    throw new YamlError(message, { offset: offsetOfAlias(name, document), cause: error });
  }
}

function offsetOfAlias(name: string, document: Document.Parsed): number {
  let offset = 0;
  visit(document, {
    Alias(_, { source, range }) {
      if (source !== name) return undefined;
      offset = range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return offset;
}
