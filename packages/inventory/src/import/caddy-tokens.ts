import { shorten } from '../shorten.ts';
import { ImportError } from './draft.ts';
import { countNewlines, quoteEnd } from './quote.ts';

/** A word of a Caddyfile, a quoted text, or a heredoc. */
export type Token = {
  text: string;
  /** The line in which it begins. */
  line: number;
  /** Whether it is quoted, or a heredoc: a brace or comma in it is none of the Caddyfile's. */
  isQuoted: boolean;
  /** Whether it is the first of its line; a line that ends with a backslash goes on in the next. */
  startsLine: boolean;
};

/** A part of the text: a token, or what stands between tokens. */
type Piece = { end: number; text?: string; isQuoted?: boolean };

/** What is neither a quote nor a line's end: a line that goes on, a comment, space, or a word. */
const PIECE = /\\\r?\n|#[^\n]*|[^\S\n]+|[^\s"`]\S*/y;

const LINE_END = /\r?\n/y;

/**
 * The tokens of a Caddyfile as Caddy's lexer finds them, in which variables of the environment have their defaults.
 * https://caddyserver.com/docs/caddyfile/concepts#tokens-and-quotes
 * @throws ImportError for quotes and heredocs that are not closed.
 */
export function* readTokens(written: string): Generator<Token> {
  const source = withDefaults(written);
  let [index, line, startsLine] = [0, 1, true];
  while (index < source.length) {
    const { end, text, isQuoted = false } = pieceAt(source, index, line);
    if (text !== undefined) {
      yield { text, line, isQuoted, startsLine };
      startsLine = false;
    } else if (source[index] === '\n') startsLine = true;
    line += countNewlines(source.slice(index, end));
    index = end;
  }
}

/**
 * The text with `{$NAME:default}` read as Caddy does where the variable is not set: before it looks for tokens, so that
 * a default may be several. A variable without a default stays as it is written.
 * https://caddyserver.com/docs/caddyfile/concepts#environment-variables
 */
function withDefaults(source: string): string {
  const parts: string[] = [];
  let from = 0;
  for (let at = source.indexOf('{$'); at !== -1; at = source.indexOf('{$', from)) {
    const end = source.indexOf('}', at);
    if (end === -1) break;
    const variable = source.slice(at, end + 1);
    const colon = variable.indexOf(':');
    parts.push(source.slice(from, at), colon === -1 ? variable : variable.slice(colon + 1, -1));
    from = end + 1;
  }
  return parts.join('') + source.slice(from);
}

function pieceAt(source: string, index: number, line: number): Piece {
  const unit = source[index] ?? '';
  if (unit === '\n') return { end: index + 1 };
  if (unit === '"' || unit === '`') return quoteAt(source, index, line);
  PIECE.lastIndex = index;
  const [piece = unit] = PIECE.exec(source) ?? [];
  const end = index + piece.length;
  if (!/^[^\s#\\]|^\\\S/.test(piece)) return { end };
  const marker = /^<<([\w-]+)$/.exec(piece)?.[1];
  const body = marker === undefined ? end : afterLine(source, end);
  if (marker !== undefined && body > end) return heredocAt(source, { marker, body, line });
  // A backslash at the end of a line is no part of the word before it.
  const goesOn = piece.endsWith('\\') && afterLine(source, end) > end;
  return goesOn ? { end: end - 1, text: piece.slice(0, -1) } : { end, text: piece };
}

function quoteAt(source: string, index: number, line: number): Piece {
  const mark = source[index] ?? '';
  const close = mark === '"' ? quoteEnd(source, index + 1, mark) : source.indexOf(mark, index + 1);
  if (close === -1) {
    throw new ImportError(`line ${line}: the quote that begins here is not closed; close it`);
  }
  const written = source.slice(index + 1, close);
  const text = mark === '"' ? written.replaceAll(/\\(["\\])/g, '$1') : written;
  return { end: close + 1, text, isQuoted: true };
}

/** A heredoc ends where its marker stands again, and its line goes on behind that. */
function heredocAt(
  source: string,
  { marker, body, line }: { marker: string; body: number; line: number },
): Piece {
  const close = source.indexOf(marker, body);
  if (close === -1) {
    throw new ImportError(
      `line ${line}: the heredoc that begins here is not closed; end it with a line ${shorten(marker)}`,
    );
  }
  return { end: close + marker.length, text: source.slice(body, close), isQuoted: true };
}

/** Where the next line begins when a line ends at the index, the index where it does not. */
function afterLine(source: string, index: number): number {
  LINE_END.lastIndex = index;
  return LINE_END.test(source) ? LINE_END.lastIndex : index;
}
