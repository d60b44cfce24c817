import type { EndpointRecord } from '../record.ts';

/** What an import knows of one endpoint. */
export type Found = {
  /** What tells it from others, for its id: words, of which letters and digits count. */
  key: readonly (string | number)[];
  name: string;
  type: string;
  /** Unknown unless the source says that only its own machine reaches the endpoint. */
  exposure?: EndpointRecord['exposure'];
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

/** What an import gives: what was found, and a line for each thing that it had to leave out. */
export type Import = {
  found: Found[];
  leftOut: string[];
};

/** The text is not what it was said to be. The message is one line: what is wrong, and where. */
export class ImportError extends Error {
  override name = 'ImportError';
}

/**
 * Makes draft records: valid ones, in which what nobody can know but the reader is blank, so that `lint`
 * asks for it. An id that is taken gets a number.
 */
export function toDrafts(found: readonly Found[], source: string): EndpointRecord[] {
  const taken = new Set<string>();
  return found.map(({ key, name, type, exposure = 'unknown', docs = '', ...rest }) => {
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
}

function slug(words: readonly (string | number)[]): string {
  const text = words.join('-').normalize('NFKD').toLowerCase();
  return text.replaceAll(/[^\p{L}\p{N}]+/gu, '-').replaceAll(/^-+|-+$/g, '') || 'endpoint';
}

function freeId(wanted: string, taken: Set<string>): string {
  let id = wanted;
  for (let number = 2; taken.has(id); number += 1) id = `${wanted}-${number}`;
  taken.add(id);
  return id;
}
