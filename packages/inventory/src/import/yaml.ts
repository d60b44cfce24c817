import { isMap, isScalar, isSeq } from 'yaml';
import { JsonTextError, parseJsonText } from '../lint/json-text.ts';
import { quoted } from '../shorten.ts';
import { parseYaml, valuesOf } from '../yaml/document.ts';
import { YamlError } from '../yaml/yaml-error.ts';
import { ImportError, TOO_DEEP } from './draft.ts';

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
  try {
    const document = parseYaml(source, maxBytes, (key) => {
      const message = `the key ${quoted(String(key.value))} is already in this mapping; remove one`;
      throw new YamlError(message, { offset: key.range?.[0] ?? 0 });
    });
    if (isMap(document.contents)) return mapping(valuesOf(document));
    throw new ImportError(
      `a mapping is expected at the top, and there is ${kindOf(document.contents)}; name a file of the kind that --from says`,
    );
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    const { offset, message } = error;
    const at = offset === undefined ? '' : `line ${lineAt(source, offset)}: `;
    throw new ImportError(`${at}${message}`, { cause: error });
  }
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
