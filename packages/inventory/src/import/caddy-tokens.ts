import { MAX_IMPORT_DEPTH } from '../limits.ts';
import { ImportError, TOO_DEEP } from './draft.ts';
import { countNewlines, quoteEnd } from './quote.ts';

/** One line of a Caddyfile that is not blank. */
export type Line = {
  words: string[];
  /** Whether it opens a block, in which the lines stand that follow. */
  opens: boolean;
  number: number;
};

type Token = { text: string; line: number; isQuoted: boolean };

/** What is neither quoted nor a line's end: a line that goes on, a comment, space, or a word. */
const PIECE = /\\\r?\n|#[^\n]*|[^\S\n]+|[^\s"`]\S*/y;

/**
 * Reads a Caddyfile as its lines, and null where a block ends; it holds one of them at a time. What the words mean is
 * not known here. https://caddyserver.com/docs/caddyfile/concepts
 * @throws ImportError for blocks and quotes that are not closed, and for blocks beyond the limit of depth.
 */
export function* readCaddyfile(source: string): Generator<Line | null> {
  const open: number[] = [];
  for (const words of lines(source)) {
    const last = words.at(-1);
    const first = words[0];
    if (first === undefined || last === undefined) continue;
    if (isBrace(first, '}')) {
      if (open.pop() === undefined) {
        throw new ImportError(`line ${first.line}: there is nothing to close`);
      }
      yield null;
      continue;
    }
    const opens = isBrace(last, '{');
    if (opens) open.push(first.line);
    if (open.length > MAX_IMPORT_DEPTH) throw new ImportError(TOO_DEEP);
    const texts = words.map(({ text }) => text);
    yield { words: opens ? texts.slice(0, -1) : texts, opens, number: first.line };
  }
  const unclosed = open.at(-1);
  if (unclosed !== undefined) {
    throw new ImportError(`line ${unclosed}: the block that begins here is not closed`);
  }
}

function isBrace({ text, isQuoted }: Token, brace: string): boolean {
  return text === brace && !isQuoted;
}

/** The words of each line. */
function* lines(source: string): Generator<Token[]> {
  let words: Token[] = [];
  let line = 1;
  let index = 0;
  while (index < source.length) {
    const unit = source[index] ?? '';
    let end = index + 1;
    if (unit === '\n') {
      yield words;
      words = [];
    } else if (unit === '"' || unit === '`') {
      const close = unit === '"' ? quoteEnd(source, end, unit) : source.indexOf(unit, end);
      if (close === -1) {
        throw new ImportError(`line ${line}: the quote that begins here is not closed`);
      }
      const written = source.slice(end, close);
      const text = unit === '"' ? written.replaceAll(/\\(["\\])/g, '$1') : written;
      words.push({ text, line, isQuoted: true });
      end = close + 1;
    } else {
      PIECE.lastIndex = index;
      const [piece = unit] = PIECE.exec(source) ?? [];
      end = index + piece.length;
      if (/^[^\s#\\]|^\\\S/.test(piece)) words.push({ text: piece, line, isQuoted: false });
    }
    line += countNewlines(source.slice(index, end));
    index = end;
  }
  yield words;
}
