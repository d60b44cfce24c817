import { ImportError } from './draft.ts';

/** One line of a Caddyfile that is not blank: its words, and the lines of the block that it opens. */
export type Line = {
  words: string[];
  block: Line[] | null;
  number: number;
};

type Token = { text: string; line: number; isQuoted: boolean };

const TOKEN = /"((?:\\.|[^"\\])*)"|`([^`]*)`|(\\\r?\n)|#[^\n]*|(\r?\n)|([^\s"`][^\s]*)/gy;

/**
 * Reads a Caddyfile as its lines and blocks: https://caddyserver.com/docs/caddyfile/concepts
 * What the words mean is not known here.
 */
export function readCaddyfile(source: string): Line[] {
  const tokens = tokenize(source);
  const root: Line[] = [];
  const open: { lines: Line[]; number: number }[] = [{ lines: root, number: 1 }];
  for (const words of lines(tokens)) {
    const last = words.at(-1);
    const first = words[0];
    if (first === undefined || last === undefined) continue;
    const current = open.at(-1);
    if (current === undefined)
      throw new ImportError(`line ${first.line}: there is nothing to close`);
    if (isBrace(first, '}')) {
      if (open.length === 1) throw new ImportError(`line ${first.line}: there is nothing to close`);
      open.pop();
      continue;
    }
    const opens = isBrace(last, '{');
    const line: Line = {
      words: (opens ? words.slice(0, -1) : words).map(({ text }) => text),
      block: opens ? [] : null,
      number: first.line,
    };
    current.lines.push(line);
    if (line.block !== null) open.push({ lines: line.block, number: first.line });
  }
  const unclosed = open.length > 1 ? open.at(-1) : undefined;
  if (unclosed !== undefined) {
    throw new ImportError(`line ${unclosed.number}: the block that begins here is not closed`);
  }
  return root;
}

function isBrace({ text, isQuoted }: Token, brace: string): boolean {
  return text === brace && !isQuoted;
}

function* lines(tokens: Iterable<Token | null>): Generator<Token[]> {
  let words: Token[] = [];
  for (const token of tokens) {
    if (token !== null) {
      words.push(token);
      continue;
    }
    yield words;
    words = [];
  }
  yield words;
}

/** The words, and null where a line ends. */
function* tokenize(source: string): Generator<Token | null> {
  let line = 1;
  let index = 0;
  while (index < source.length) {
    TOKEN.lastIndex = index;
    const match = TOKEN.exec(source);
    if (match === null) {
      if (/\s/.test(source[index] ?? '')) {
        index += 1;
        continue;
      }
      throw new ImportError(`line ${line}: the quote that begins here is not closed`);
    }
    const [whole, quoted, raw, , newline, word] = match;
    if (newline !== undefined) yield null;
    else if (quoted !== undefined) {
      yield { text: quoted.replaceAll(/\\(["\\])/g, '$1'), line, isQuoted: true };
    } else if (raw !== undefined) yield { text: raw, line, isQuoted: true };
    else if (word !== undefined) yield { text: word, line, isQuoted: false };
    line += whole.split('\n').length - 1;
    index += whole.length;
  }
}
