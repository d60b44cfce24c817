import { ModelError } from './errors.ts';

/** How long texts may be for a model that embeds, learned from what it rejects. */
export type TextLimit = {
  /** Cuts texts to what the model is known to take. */
  cut(texts: readonly string[]): string[];
  /**
   * Shortens texts that the model has rejected together, and remembers it for the ones to come.
   * @returns Nothing where the error says nothing of their length, or there is nothing left to cut.
   */
  shorten(texts: readonly string[], error: unknown): string[] | undefined;
};

/** A model that does not take so much takes nothing of use. */
const MIN_BYTES = 64;

/** Tokens are not spread evenly over a text: a tenth less than the proportion says. */
const MARGIN = 0.9;

/**
 * A token of a usual text is more than two bytes, in any script. One odd text, such as of emoji, is cut further, and
 * the others are not cut for it.
 */
const MIN_BYTES_PER_TOKEN = 2;

/**
 * Remembers the limit of a model in the bytes of UTF-8, of which a token of Cyrillic has about as many as one of
 * English, though half as many letters. Servers that name the size of the text and their limit, in tokens, are
 * believed; where they do not, half of the text is left out.
 */
export function createTextLimit(): TextLimit {
  let maxBytes = Infinity;

  return {
    cut: (texts) => texts.map((text) => cutBytes(text, maxBytes)),
    shorten(texts, error) {
      if (!(error instanceof ModelError) || error.code !== 'MODEL_INPUT_TOO_LARGE') {
        return undefined;
      }
      const longest = Math.max(...texts.map((text) => Buffer.byteLength(text)));
      const { given, limit } = error.tokens ?? {};
      const share = given !== undefined && limit !== undefined ? (limit / given) * MARGIN : 0.5;
      const bytes = Math.floor(longest * share);
      if (bytes < MIN_BYTES) return undefined;
      maxBytes = Math.min(maxBytes, Math.max(bytes, (limit ?? 0) * MIN_BYTES_PER_TOKEN));
      return texts.map((text) => cutBytes(text, bytes));
    },
  };
}

/** The beginning of a text, of at most so many bytes, without half a character. */
function cutBytes(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return text;
  return encoded
    .subarray(0, bytes)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
}
