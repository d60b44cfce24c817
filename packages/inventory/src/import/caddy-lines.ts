import { MAX_IMPORT_DEPTH } from '../limits.ts';
import { readTokens, type Token } from './caddy-tokens.ts';
import { ImportError, NOTHING_TO_CLOSE, TOO_DEEP, UNCLOSED } from './draft.ts';

/** The words of one line of a Caddyfile, or of several that are one. */
export type Line = {
  words: string[];
  /** Whether it opens a block, in which the lines stand that follow. */
  opens: boolean;
  /**
   * Whether it is the head of what stands at the top of the file: the addresses of a site, the name of a snippet or
   * route, nothing for the options of the server, an import, or a variable that stands for any of them.
   */
  isHead: boolean;
  number: number;
};

/**
 * Reads a Caddyfile as its lines, and null where a block ends; it holds one of them at a time. Addresses go on in the
 * next line behind a comma. A head that opens no block is the site without braces, of which all that follows is. What
 * the words mean is not known here.
 * https://caddyserver.com/docs/caddyfile/concepts#structure
 * @throws ImportError for blocks and quotes that are not closed, and for blocks beyond the limit of depth.
 */
export function* readCaddyfile(source: string): Generator<Line | null> {
  const open: number[] = [];
  let words: Token[] = [];
  let isWithin = false;
  const finish = (opens: boolean, number: number): Line => {
    const isHead = open.length === 0 && !isWithin;
    const line = { words: words.map(({ text }) => text), opens, isHead, number };
    isWithin ||= isHead && !opens && !isImport(line) && !isVariable(line);
    words = [];
    return line;
  };
  for (const token of readTokens(source)) {
    const [first = token] = words;
    if (isBrace(token, '{')) {
      yield finish(true, first.line);
      open.push(token.line);
      if (open.length > MAX_IMPORT_DEPTH) throw new ImportError(TOO_DEEP);
      continue;
    }
    const isEnd = isBrace(token, '}');
    const goesOn = open.length === 0 && !isWithin && endsInComma(words.at(-1));
    if (words.length > 0 && (isEnd || (token.startsLine && !goesOn))) {
      yield finish(false, first.line);
    }
    if (!isEnd) words.push(token);
    else if (open.pop() === undefined)
      throw new ImportError(`line ${token.line}: ${NOTHING_TO_CLOSE}`);
    else yield null;
  }
  if (words[0] !== undefined) yield finish(false, words[0].line);
  const unclosed = open.at(-1);
  if (unclosed !== undefined) throw new ImportError(`line ${unclosed}: ${UNCLOSED}`);
}

/** Whether a line stands for what is in another file, or in a snippet. */
export function isImport({ words }: Line): boolean {
  return words[0] === 'import';
}

/** Whether a line is nothing but variables of the environment: where none is set, it is blank. */
export function isVariable({ words, opens }: Line): boolean {
  return !opens && words.every((word) => /^\{\$[^}]*\}$/.test(word));
}

function isBrace({ text, isQuoted }: Token, brace: string): boolean {
  return text === brace && !isQuoted;
}

function endsInComma(token: Token | undefined): boolean {
  return token !== undefined && !token.isQuoted && token.text.endsWith(',');
}
