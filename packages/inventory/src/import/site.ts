import { SHOWN_IN_NOTES } from '../limits.ts';

/** What a site, server or API has beside its addresses, for the notes and the `auth` of its drafts. */
export class Site {
  readonly #passes = new Set<string>();
  readonly #ways = new Set<string>();
  readonly #waysOfParts = new Set<string>();
  readonly #openParts = new Set<string>();
  readonly #sentences = new Set<string>();

  /** Notes where it passes requests to. */
  passesTo(upstream: string): void {
    this.#passes.add(upstream);
  }

  /**
   * Notes a way to authenticate.
   * @param part The part of the site that it holds for, such as `/admin/`; undefined for all of it.
   */
  asksFor(way: string, part?: string): void {
    if (part === undefined) this.#ways.add(way);
    else this.#waysOfParts.add(`${way} at ${part} only.`);
  }

  /**
   * Notes what may be asked for, and may not: it is no way to authenticate of the site.
   * @param part As of {@link asksFor}.
   */
  mayAskFor(what: string, part?: string): void {
    this.#waysOfParts.add(part === undefined ? `${what}.` : `${what} at ${part}.`);
  }

  /** Notes a sentence of its own. */
  note(sentence: string): void {
    this.#sentences.add(sentence);
  }

  /** Notes a part that asks for nothing, whatever the site does. */
  leavesOpen(part: string): void {
    this.#openParts.add(`No authentication at ${part}.`);
  }

  /** What all of it asks for; a part alone says nothing of the others. */
  auth(): string | undefined {
    return this.#ways.size === 0 ? undefined : listed(this.#ways, '; ');
  }

  /** Sentences on what else there is, the first ones of each kind. */
  notes(): string {
    return [
      ...sentences(this.#sentences, (count) => `${count} more rules of access.`),
      ...sentences(this.#waysOfParts, (count) => `Authentication at ${count} more places.`),
      ...(this.#ways.size === 0
        ? []
        : sentences(this.#openParts, (count) => `None at ${count} more places.`)),
      ...sentences(
        new Set(Array.from(this.#passes, (upstream) => `Passes to ${upstream}.`)),
        (count) => `Passes to ${count} more.`,
      ),
    ].join(' ');
  }
}

/** The first of some words, and how many more there are. */
export function listed(words: ReadonlySet<string>, separator: string): string {
  const more = words.size - SHOWN_IN_NOTES;
  return first(words).join(separator) + (more > 0 ? ` and ${more} more` : '');
}

function sentences(all: ReadonlySet<string>, rest: (count: number) => string): string[] {
  const more = all.size - SHOWN_IN_NOTES;
  return more > 0 ? [...first(all), rest(more)] : first(all);
}

function first(all: ReadonlySet<string>): string[] {
  return all.values().take(SHOWN_IN_NOTES).toArray();
}
