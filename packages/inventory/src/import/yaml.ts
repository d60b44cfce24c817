import { type Document, isMap, isScalar, parseDocument } from 'yaml';
import { ImportError } from './draft.ts';

/**
 * What a YAML or JSON text (YAML 1.2) holds; a mapping at its top. Aliases are bounded.
 * @throws ImportError
 */
export function parseMapping(source: string): Record<string, unknown> {
  const document = parseDocument(source, { uniqueKeys: true, merge: true });
  const [error] = document.errors;
  if (error !== undefined) {
    const [first = ''] = error.message.split('\n');
    throw new ImportError(first.replace(/:$/, ''));
  }
  if (!isMap(document.contents)) {
    const what = isScalar(document.contents) ? 'a single value' : 'no mapping';
    throw new ImportError(`a mapping is expected at the top, and there is ${what}`);
  }
  return mapping(valuesOf(document));
}

/** What aliases stand for is known only now, and so is what is wrong with them. */
function valuesOf(document: Document.Parsed): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw new ImportError(error.message, { cause: error });
  }
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
