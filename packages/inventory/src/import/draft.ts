import { maskCredentials, maskValue, removeCredentials } from '../credentials.ts';
import {
  MAX_DRAFT_CHARACTERS,
  MAX_IMPORTED_RECORDS,
  MAX_NOTE_ITEMS,
  MAX_SKIPPED_LINES,
} from '../limits.ts';
import { type EndpointRecord, PROPERTY_TYPES, REQUIRED_KEYS } from '../record.ts';

/** Keys of the record properties that an imported file may specify. */
type ImportableKey =
  | ('exposure' | 'url' | 'protocol' | 'host' | 'port')
  | ('domain' | 'service' | 'purpose' | 'auth' | 'notes' | 'docs');

/** Endpoint of an imported file. `key` contains the parts of its ID. */
export type ImportedEndpoint = { key: readonly (string | number)[]; name: string; type: string } & {
  [Key in ImportableKey]?: EndpointRecord[Key] | undefined;
};

/** Thrown for a file that cannot be imported. The one-line message names the error and its remedy. */
export class ImportError extends Error {
  override name = 'ImportError';
}

/** Endpoints of one import, and the parts that it skipped. */
export class ImportResult {
  readonly endpoints: ImportedEndpoint[] = [];
  /** Descriptions of the first skipped parts. Further parts are only counted. */
  readonly skippedParts: string[] = [];
  extraSkipCount = 0;

  /** Adds an endpoint. @throws ImportError if the import exceeds the endpoint limit. */
  add(endpoint: ImportedEndpoint): void {
    this.checkEndpointCount(this.endpoints.length + 1);
    this.endpoints.push(endpoint);
  }

  /** @throws ImportError if the endpoints exceed the limit. */
  checkEndpointCount(endpoints: number): void {
    if (endpoints <= MAX_IMPORTED_RECORDS) return;
    throw new ImportError(
      `it has more than ${MAX_IMPORTED_RECORDS} endpoints; import it in parts, or without ranges of ports`,
    );
  }

  /** Records a skipped part. @param describe Returns the description. Not called for parts that are only counted. */
  skip(describe: () => string): void {
    if (this.skippedParts.length === MAX_SKIPPED_LINES) this.extraSkipCount += 1;
    else {
      const line = describe();
      // Many servers may include the same file, so equal lines are listed once.
      if (!this.skippedParts.includes(line)) this.skippedParts.push(line);
    }
  }

  /**
   * Returns valid draft records. Unknown required properties except `exposure` are blank, so that `lint` reports them.
   * @param source Value of `source_of_truth`.
   * @throws ImportError if the total size of the drafts exceeds the limit.
   */
  createDrafts(source: string): { records: EndpointRecord[]; credentialDraftCount: number } {
    const usedIds = new Map<string, number>();
    let credentialDraftCount = 0;
    let characters = 0;
    const records = this.endpoints.map((endpoint) => {
      const json = JSON.stringify(endpoint);
      characters += json.length;
      if (characters > MAX_DRAFT_CHARACTERS) {
        throw new ImportError('its drafts take more than 32 MiB; import it in parts');
      }
      const maskedEndpoint = maskEndpoint(endpoint);
      if (JSON.stringify(maskedEndpoint) !== json) credentialDraftCount += 1;
      const { key, exposure = 'unknown', docs = '', ...properties } = maskedEndpoint;
      const id = createUniqueId(createSlug(key), usedIds);
      const record: Record<string, unknown> = { id, status: 'draft', exposure, docs };
      Object.assign(record, properties, { last_reviewed: '', source_of_truth: source });
      // Keys in specification order, without empty optional properties.
      const keys = [...PROPERTY_TYPES.keys()].filter((name) => {
        return REQUIRED_KEYS.has(name) || (record[name] !== undefined && record[name] !== '');
      });
      return Object.fromEntries(keys.map((name) => [name, record[name]])) as EndpointRecord;
    });
    return { records, credentialDraftCount };
  }
}

function maskEndpoint(endpoint: ImportedEndpoint): ImportedEndpoint {
  // Masking preserves the type of each value.
  const maskedEndpoint = maskValue(endpoint) as ImportedEndpoint;
  const { url } = endpoint;
  return url === undefined
    ? maskedEndpoint
    : { ...maskedEndpoint, url: maskCredentials(removeCredentials(url)) };
}

/** Creates a slug. Keeps combining marks, because `й` and `и` are different letters. */
function createSlug(words: readonly (string | number)[]): string {
  const text = words.join('-').normalize('NFKC').toLowerCase();
  return text.replaceAll(/[^\p{L}\p{M}\p{N}]+/gu, '-').replaceAll(/^-+|-+$/g, '') || 'endpoint';
}

/** Makes a slug unique. @param usedIds Used IDs, each with the last appended number. */
function createUniqueId(slug: string, usedIds: Map<string, number>): string {
  let id = slug;
  let number = usedIds.get(slug) ?? 0;
  while (usedIds.has(id)) {
    number = Math.max(number + 1, 2);
    id = `${slug}-${number}`;
  }
  usedIds.set(slug, number);
  usedIds.set(id, usedIds.get(id) ?? 0);
  return id;
}

/** Parses a port or a range such as `3000-3002`. Returns null for other strings. */
export function parsePortRange(text: string): number[] | null {
  const [, firstPort = '', lastPort = firstPort] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text) ?? [];
  const [start, end] = [Number(firstPort), Number(lastPort)];
  if (firstPort === '' || start < 1 || end > 65_535 || end < start) return null;
  return Array.from({ length: end - start + 1 }, (_, index) => start + index);
}

/** Formats the first distinct list items and the number of remaining items. */
export function formatShortList(words: Iterable<string>, separator: string): string {
  const uniqueWords = new Set(words);
  const remainingCount = uniqueWords.size - MAX_NOTE_ITEMS;
  return (
    [...uniqueWords].slice(0, MAX_NOTE_ITEMS).join(separator) +
    (remainingCount > 0 ? ` and ${remainingCount} more` : '')
  );
}

/** Collects the authentication and upstreams of a site for the `auth` and `notes` of its drafts. */
export class SiteNotes {
  readonly #authMethods = new Set<string>();
  readonly #sentences = new Set<string>();
  readonly #authParts = new Set<string>();
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
    else this.#authParts.add(`${authMethod} at ${part} only.`);
  }

  addOpenPart(part: string): void {
    this.#openParts.add(`No authentication at ${part}.`);
  }

  addNote(sentence: string): void {
    this.#sentences.add(sentence);
  }

  describeAuth(): string | undefined {
    return this.#authMethods.size === 0 ? undefined : formatShortList(this.#authMethods, '; ');
  }

  /** Returns the sentences for `notes`, with a limited number of each kind. */
  describeNotes(): string {
    const openParts = this.#authMethods.size === 0 ? [] : this.#openParts;
    return [this.#sentences, this.#authParts, openParts, this.#targets]
      .map((sentences) => formatShortList(sentences, ' '))
      .filter(Boolean)
      .join(' ');
  }
}
