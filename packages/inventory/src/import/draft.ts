import { maskCredentials, maskValue, removeCredentials } from '../credentials.ts';
import {
  MAX_DRAFT_CHARACTERS,
  MAX_IMPORTED_RECORDS,
  MAX_NOTE_ITEMS,
  MAX_SKIPPED_LINES,
} from '../limits.ts';
import { type EndpointRecord, PROPERTY_TYPES, REQUIRED_KEYS } from '../record.ts';

/** Record properties that an imported file may specify. */
type StatedProperties =
  | ('exposure' | 'url' | 'protocol' | 'host' | 'port')
  | ('domain' | 'service' | 'purpose' | 'auth' | 'notes' | 'docs');

/** Facts about one endpoint of an imported file. `key` contains the parts of its ID. */
export type EndpointFacts = { key: readonly (string | number)[]; name: string; type: string } & {
  [Key in StatedProperties]?: EndpointRecord[Key] | undefined;
};

/** Thrown for a file that cannot be imported. The one-line message names the error and its remedy. */
export class ImportError extends Error {
  override name = 'ImportError';
}

/** Endpoints of one import, and the parts that it skipped. */
export class ImportResult {
  readonly endpoints: EndpointFacts[] = [];
  /** Descriptions of the first skipped parts. Further parts are counted. */
  readonly skipped: string[] = [];
  moreSkipped = 0;

  /** @throws ImportError if the import exceeds the limit of endpoints. */
  add(facts: EndpointFacts): void {
    this.checkEndpointCount(this.endpoints.length + 1);
    this.endpoints.push(facts);
  }

  /** @throws ImportError */
  checkEndpointCount(endpoints: number): void {
    if (endpoints <= MAX_IMPORTED_RECORDS) return;
    throw new ImportError(
      `it has more than ${MAX_IMPORTED_RECORDS} endpoints; import it in parts, or without ranges of ports`,
    );
  }

  /** @param describe Returns the description. Not called for parts that are only counted. */
  skip(describe: () => string): void {
    if (this.skipped.length === MAX_SKIPPED_LINES) this.moreSkipped += 1;
    else {
      const line = describe();
      // Many servers may include the same file.
      if (!this.skipped.includes(line)) this.skipped.push(line);
    }
  }

  /**
   * Returns valid draft records. Unknown required properties are blank, so that `lint` reports them.
   * @param source Value of `source_of_truth`.
   * @throws ImportError if the total size of the drafts exceeds the limit.
   */
  createDrafts(source: string): { records: EndpointRecord[]; withCredentials: number } {
    const taken = new Map<string, number>();
    let withCredentials = 0;
    let characters = 0;
    const records = this.endpoints.map((facts) => {
      const json = JSON.stringify(facts);
      characters += json.length;
      if (characters > MAX_DRAFT_CHARACTERS) {
        throw new ImportError('its drafts take more than 32 MiB; import it in parts');
      }
      const masked = maskFacts(facts);
      if (JSON.stringify(masked) !== json) withCredentials += 1;
      const { key, exposure = 'unknown', docs = '', ...rest } = masked;
      const id = createUniqueId(createSlug(key), taken);
      const record: Record<string, unknown> = { id, status: 'draft', exposure, docs };
      Object.assign(record, rest, { last_reviewed: '', source_of_truth: source });
      // Keys in the order of the specification, without empty optional properties.
      const keys = [...PROPERTY_TYPES.keys()].filter((name) => {
        return REQUIRED_KEYS.has(name) || (record[name] !== undefined && record[name] !== '');
      });
      return Object.fromEntries(keys.map((name) => [name, record[name]])) as EndpointRecord;
    });
    return { records, withCredentials };
  }
}

function maskFacts(facts: EndpointFacts): EndpointFacts {
  // Masking preserves the type of each value.
  const masked = maskValue(facts) as EndpointFacts;
  const { url } = facts;
  return url === undefined ? masked : { ...masked, url: maskCredentials(removeCredentials(url)) };
}

/** Creates a slug. Combining marks are kept, because `й` and `и` are different letters. */
function createSlug(words: readonly (string | number)[]): string {
  const text = words.join('-').normalize('NFKC').toLowerCase();
  return text.replaceAll(/[^\p{L}\p{M}\p{N}]+/gu, '-').replaceAll(/^-+|-+$/g, '') || 'endpoint';
}

/** @param taken Used IDs, each with the last appended number. */
function createUniqueId(wanted: string, taken: Map<string, number>): string {
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

/** Parses a port or a range such as `3000-3002`. Returns null for other texts. */
export function parsePortRange(written: string): number[] | null {
  const [, first = '', last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(written) ?? [];
  const [from, to] = [Number(first), Number(last)];
  if (first === '' || from < 1 || to > 65_535 || to < from) return null;
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

/** Formats the first items of a list and the number of remaining items. */
export function formatShortList(words: Iterable<string>, separator: string): string {
  const all = new Set(words);
  const more = all.size - MAX_NOTE_ITEMS;
  return [...all].slice(0, MAX_NOTE_ITEMS).join(separator) + (more > 0 ? ` and ${more} more` : '');
}

/** Collects the authentication and upstreams of a site for the `auth` and `notes` of its drafts. */
export class SiteNotes {
  readonly #authMethods = new Set<string>();
  readonly #sentences = new Set<string>();
  readonly #partsWithAuth = new Set<string>();
  readonly #openParts = new Set<string>();
  readonly #targets = new Set<string>();

  addUpstream(upstream: string): void {
    this.#targets.add(`Passes to ${upstream}.`);
  }

  /**
   * Adds a required authentication method.
   * @param part Part of the site that requires the method. Undefined for the whole site.
   */
  addRequirement(authMethod: string, part?: string): void {
    if (part === undefined) this.#authMethods.add(authMethod);
    else this.#partsWithAuth.add(`${authMethod} at ${part} only.`);
  }

  addOpenPart(part: string): void {
    this.#openParts.add(`No authentication at ${part}.`);
  }

  note(sentence: string): void {
    this.#sentences.add(sentence);
  }

  describeAuth(): string | undefined {
    return this.#authMethods.size === 0 ? undefined : formatShortList(this.#authMethods, '; ');
  }

  /** Returns sentences about everything else, with a limited number of items of each kind. */
  describeRest(): string {
    const open = this.#authMethods.size === 0 ? [] : this.#openParts;
    return [this.#sentences, this.#partsWithAuth, open, this.#targets]
      .map((sentences) => formatShortList(sentences, ' '))
      .filter(Boolean)
      .join(' ');
  }
}
