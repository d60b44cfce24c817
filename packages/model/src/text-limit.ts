import { ModelError } from './errors.ts';

/** The longest text that an embedding model takes, learned from its rejections. */
export type TextLimit = {
  /** Cuts texts to the known limit. */
  cut(texts: readonly string[]): string[];
  /**
   * Shortens texts that the model rejected together, and lowers the limit for later ones.
   * @returns Undefined when the error is not about their length, or they cannot be cut further.
   */
  shorten(texts: readonly string[], error: unknown): string[] | undefined;
};

/** Shorter texts are useless for search. */
const MIN_BYTES = 64;

/** Cuts a tenth more than the proportion, because tokens are not spread evenly over a text. */
const MARGIN = 0.9;

/**
 * A token of a usual text is more than two bytes, in any script. An unusual text, such as one of emoji, is cut further
 * without lowering the limit of others.
 */
const MIN_BYTES_PER_TOKEN = 2;

/**
 * Creates the limit of a model. It counts bytes of UTF-8, of which a token has about as many in Cyrillic as in English.
 * If the server names the size of the text and its limit in tokens, their proportion applies; otherwise a half is cut.
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

/** Returns the beginning of a text, at most `bytes` long, without a partial character. */
function cutBytes(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return text;
  return encoded
    .subarray(0, bytes)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
}
