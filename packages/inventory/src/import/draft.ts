import { maskCredentials, maskValue, withoutCredentials } from '../credentials.ts';
import { MAX_DRAFTS_CHARACTERS, MAX_IMPORTED_RECORDS, MAX_LEFT_OUT_LINES } from '../limits.ts';
import type { EndpointRecord } from '../record.ts';

/** What an import knows of one endpoint. */
export type Found = {
  /** What tells it from others, for its id: words, of which letters and digits count. */
  key: readonly (string | number)[];
  name: string;
  type: string;
  /** Unknown unless the source says that only its own machine reaches the endpoint. */
  exposure?: EndpointRecord['exposure'] | undefined;
  url?: string | undefined;
  protocol?: string | undefined;
  host?: string | undefined;
  port?: number | undefined;
  domain?: string | undefined;
  service?: string | undefined;
  purpose?: string | undefined;
  auth?: string | undefined;
  notes?: string | undefined;
  docs?: string | undefined;
};

/** What an import gives: what was found, and what it had to leave out. */
export type Import = {
  found: Found[];
  leftOut: LeftOut;
};

/** What an import had to leave out: a line for each of the first ones, and how many more there are. */
export class LeftOut {
  readonly lines: string[] = [];
  more = 0;

  /** @param tell Gives the line, which is not asked for when it is only counted. */
  add(tell: () => string): void {
    if (this.lines.length === MAX_LEFT_OUT_LINES) this.more += 1;
    else {
      const line = tell();
      // One include of a file may stand in each of many servers.
      if (!this.lines.includes(line)) this.lines.push(line);
    }
  }
}

export { TOO_DEEP } from '../yaml/yaml-error.ts';

/** What it says of a block that goes on to the end of the file. */
export const UNCLOSED = 'the block that begins here is not closed; add the } that ends it';

/** What it says of a brace that closes no block. */
export const NOTHING_TO_CLOSE =
  'there is nothing to close; remove this }, or add the { that it ends';

/** The text is not what it was said to be. The message is one line: what is wrong and where, and what to do. */
export class ImportError extends Error {
  override name = 'ImportError';
}

/**
 * Holds an import to its limit while it grows.
 * @throws ImportError when there are more endpoints.
 */
export function checkNumber(found: number): void {
  if (found <= MAX_IMPORTED_RECORDS) return;
  throw new ImportError(
    `it has more than ${MAX_IMPORTED_RECORDS} endpoints; import it in parts, or leave ranges of ports out`,
  );
}

/** Draft records, and how many of them were found with credentials, which drafts do not have. */
export type Drafts = {
  records: EndpointRecord[];
  withCredentials: number;
};

/**
 * Makes draft records: valid ones, in which what nobody can know but the reader is blank, so that `lint`
 * asks for it. An id that is taken gets a number.
 * @throws ImportError when there are more than the limit, or they are longer in all: a long name or note may be
 * that of each of thousands.
 */
export function toDrafts(found: readonly Found[], source: string): Drafts {
  checkNumber(found.length);
  const taken = new Map<string, number>();
  let withCredentials = 0;
  let characters = 0;
  const records = found.map((one) => {
    characters += lengthOf(one);
    if (characters > MAX_DRAFTS_CHARACTERS) {
      throw new ImportError('its drafts take more than 32 MiB; import it in parts');
    }
    const bare = withoutSecrets(one);
    if (JSON.stringify(bare) !== JSON.stringify(one)) withCredentials += 1;
    const { key, name, type, exposure = 'unknown', docs = '', ...rest } = bare;
    const more = Object.entries(rest).filter(([, value]) => value !== undefined && value !== '');
    return {
      id: freeId(slug(key), taken),
      name,
      type,
      status: 'draft',
      exposure,
      docs,
      last_reviewed: '',
      ...Object.fromEntries(more),
      source_of_truth: source,
    };
  });
  return { records, withCredentials };
}

function lengthOf({ key, ...rest }: Found): number {
  const texts = [...key, ...Object.values(rest)].filter((value) => typeof value === 'string');
  return texts.reduce((sum, { length }) => sum + length, 0);
}

/** An inventory is for more people than what it is drafted from. */
function withoutSecrets(found: Found): Found {
  // Masked texts are texts, so it stays what it is.
  const masked = maskValue(found) as Found;
  const { url } = found;
  return url === undefined ? masked : { ...masked, url: maskCredentials(withoutCredentials(url)) };
}

/** Letters stay what they are, with their marks: `й` is another letter than `и`. */
function slug(words: readonly (string | number)[]): string {
  const text = words.join('-').normalize('NFKC').toLowerCase();
  return text.replaceAll(/[^\p{L}\p{M}\p{N}]+/gu, '-').replaceAll(/^-+|-+$/g, '') || 'endpoint';
}

/** @param taken The ids that are, each with the last number that was put behind it. */
function freeId(wanted: string, taken: Map<string, number>): string {
  let id = wanted;
  let number = taken.get(wanted) ?? 0;
  while (taken.has(id)) {
    number = Math.max(number + 1, 2);
    id = `${wanted}-${number}`;
  }
  taken.set(wanted, number);
  taken.set(id, taken.get(id) ?? 0);
  return id;
}
