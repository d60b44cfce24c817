import { Lexer } from 'yaml';
import { MAX_IMPORT_DEPTH, MIN_BYTES_OF_YAML_PART } from '../limits.ts';
import { TOO_DEEP, YamlError } from './yaml-error.ts';

const KIBIBYTE = 1024;

/**
 * Refuses YAML that is too large, too deep or too dense for the parser, before the parser has it: that one makes
 * a tree of all of it, and an object of each error, however many there are. Nothing is kept here.
 * @throws YamlError
 */
export function checkYamlText(source: string, maxBytes: number): void {
  if (Buffer.byteLength(source) > maxBytes) {
    throw new YamlError(
      `YAML of this kind is read up to ${sizeOf(maxBytes)}, and this is more; give it as JSON, or a part of it`,
    );
  }
  const maxParts = maxBytes / MIN_BYTES_OF_YAML_PART;
  let parts = 0;
  let brackets = 0;
  // "- - a" is two lists: in block style a line may begin several.
  let marksOfLine = 0;
  for (const part of new Lexer().lex(source)) {
    parts += 1;
    if (parts > maxParts) {
      throw new YamlError(
        `its YAML has more than ${maxParts} words, marks and spaces; give it as JSON, or a part of it`,
      );
    }
    // The lexer gives a text as one part: what is within is no mark.
    if (part === '[' || part === '{') brackets += 1;
    else if (part === ']' || part === '}') brackets = Math.max(0, brackets - 1);
    else if (part.endsWith('\n')) marksOfLine = 0;
    else if (brackets === 0 && /^[-?:]$/.test(part)) marksOfLine += 1;
    if (brackets + marksOfLine > MAX_IMPORT_DEPTH) throw new YamlError(TOO_DEEP);
  }
}

function sizeOf(bytes: number): string {
  const kibibytes = bytes / KIBIBYTE;
  return kibibytes < KIBIBYTE ? `${kibibytes} KiB` : `${kibibytes / KIBIBYTE} MiB`;
}
