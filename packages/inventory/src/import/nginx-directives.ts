import { MAX_IMPORT_DEPTH } from '../limits.ts';
import { ImportError, NOTHING_TO_CLOSE, TOO_DEEP, UNCLOSED } from './draft.ts';
import { countNewlines, quoteEnd } from './quote.ts';

/** One directive of nginx. */
export type Directive = {
  name: string;
  values: string[];
  /** Whether it opens a block, in which the directives stand that follow. */
  opens: boolean;
};

type Token = { text: string; line: number; isMark: boolean };

/**
 * Reads an nginx configuration as its directives, and null where a block ends; it holds one of them at a time. What
 * they mean is not known here. Blocks of Lua are passed over.
 * https://nginx.org/en/docs/beginners_guide.html#conf_structure
 * @throws ImportError for blocks and quotes that are not closed, and for blocks beyond the limit of depth.
 */
export function* readDirectives(source: string): Generator<Directive | null> {
  const open: number[] = [];
  let words: string[] = [];
  for (const { text, line, isMark } of tokens(source)) {
    if (!isMark) {
      words.push(text);
      continue;
    }
    if (text === '}') {
      if (open.pop() === undefined) {
        throw new ImportError(`line ${line}: ${NOTHING_TO_CLOSE}`);
      }
      yield null;
    } else {
      const [name = '', ...values] = words;
      const opens = text === '{';
      if (opens) open.push(line);
      if (open.length > MAX_IMPORT_DEPTH) throw new ImportError(TOO_DEEP);
      yield { name, values, opens };
    }
    words = [];
  }
  const unclosed = open.at(-1);
  if (unclosed !== undefined) throw new ImportError(`line ${unclosed}: ${UNCLOSED}`);
}

/** Words, without their quotes, and the marks that end directives and blocks. */
function* tokens(source: string): Generator<Token> {
  let line = 1;
  let index = 0;
  // The first word since the last mark.
  let name: string | undefined;
  while (index < source.length) {
    const unit = source[index] ?? '';
    let end = index + 1;
    if (unit === '#') end = before(source, '\n', index);
    else if (unit === ';' || unit === '{' || unit === '}') {
      const isLua = unit === '{' && name?.endsWith('_by_lua_block');
      if (isLua) end = luaEnd(source, end, line);
      yield { text: isLua ? ';' : unit, line, isMark: true };
      name = undefined;
    } else if (!isSpace(unit)) {
      const isQuoted = unit === '"' || unit === "'";
      end = isQuoted ? afterQuote(source, index, line) : wordEnd(source, index);
      const written = isQuoted ? source.slice(index + 1, end - 1) : source.slice(index, end);
      const text = written.replaceAll(/\\(["'\\])/g, '$1');
      name ??= text;
      yield { text, line, isMark: false };
    }
    line += countNewlines(source.slice(index, end));
    index = end;
  }
}

function isSpace(unit: string): boolean {
  return unit === ' ' || unit === '\n' || unit === '\t' || unit === '\r';
}

function before(source: string, mark: string, from: number): number {
  const at = source.indexOf(mark, from);
  return at === -1 ? source.length : at;
}

function afterQuote(source: string, index: number, line: number): number {
  const end = quoteEnd(source, index + 1, source[index] ?? '');
  if (end !== -1) return end + 1;
  throw new ImportError(`line ${line}: the quote that begins here is not closed; close it`);
}

/** The end of a word without quotes. The brace of a variable, as in `${name}`, opens no block. */
function wordEnd(source: string, from: number): number {
  let index = from;
  while (index < source.length) {
    const unit = source[index] ?? '';
    if (isSpace(unit) || unit === ';') break;
    if (unit === '{' && source[index - 1] !== '$') break;
    index += unit === '\\' ? 2 : 1;
  }
  return Math.min(index, source.length);
}

/** The end of a block of Lua, in which braces in comments, quotes and long brackets count for nothing. */
function luaEnd(source: string, from: number, line: number): number {
  const token = /(?:--)?\[(=*)\[|--[^\n]*|["'{}]/g;
  token.lastIndex = from;
  let depth = 1;
  for (let match = token.exec(source); match !== null; match = token.exec(source)) {
    const [text, equals] = match;
    if (text === '{') depth += 1;
    else if (text === '}') depth -= 1;
    else if (equals !== undefined) {
      token.lastIndex = before(source, `]${equals}]`, token.lastIndex);
    } else if (text === '"' || text === "'") {
      token.lastIndex = afterQuote(source, match.index, line);
    }
    if (depth === 0) return token.lastIndex;
  }
  throw new ImportError(`line ${line}: ${UNCLOSED}`);
}
