import type { RateLimit } from '@oselya/kit';

/**
 * Counts a payload against the limits of whoever sends it and of its source, and gives the headers that tell where
 * the source stands.
 * @param caller Who sends it, as `callerOf` tells.
 * @throws ProblemError as the limits do: `rate_limited`, `unavailable`.
 */
export type SourceLimit = (source: string, caller: string) => Promise<Record<string, string>>;

/** So many sources are remembered as known; past them they are looked up anew. A name has at most 64 bytes. */
const MAX_REMEMBERED = 10_000;

/**
 * Limits payloads by their source, and for each caller how many sources come into being: a source's limit says
 * nothing to a sender that makes up another source for each payload, each of which stays in the database.
 * A source is known from its first payload on, whoever sent that. Specification 001, Limits.
 * @param perSource The limit of one source.
 * @param newSources The limit of one caller; undefined is none, and then no source is looked up.
 * @param isKnown Whether a source has been there before.
 */
export function limitSources(deps: {
  perSource: RateLimit;
  newSources: RateLimit | undefined;
  isKnown: (source: string) => Promise<boolean>;
}): SourceLimit {
  const { perSource, newSources, isKnown } = deps;
  if (newSources === undefined) return perSource;
  const remembered = new Set<string>();
  const looking = new Map<string, Promise<void>>();

  async function look(source: string, caller: string): Promise<void> {
    if (!(await isKnown(source))) await newSources?.(caller);
    if (remembered.size >= MAX_REMEMBERED) remembered.clear();
    remembered.add(source);
  }

  /** The first payloads of a source may come together, and it is one source. */
  function admit(source: string, caller: string): Promise<void> {
    const both = `${source} ${caller}`;
    const begun = looking.get(both) ?? look(source, caller).finally(() => looking.delete(both));
    looking.set(both, begun);
    return begun;
  }

  return async (source, caller) => {
    if (!remembered.has(source)) await admit(source, caller);
    return perSource(source);
  };
}
