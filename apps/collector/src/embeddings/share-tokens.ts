import type { ModelCallEvent } from '@oselya/model';

/**
 * What a request for several texts cost for each: tokens in proportion to the texts' lengths, which are
 * all that is known of them, in whole numbers that add up to what the server counted.
 */
export function shareTokens(event: ModelCallEvent, texts: readonly string[]): ModelCallEvent[] {
  const whole = texts.reduce((sum, text) => sum + text.length, 0);
  let before = 0;
  return texts.map(({ length }) => {
    const [from, to] = [before, before + length];
    before = to;
    const part = (tokens: number | null) =>
      tokens === null || whole === 0
        ? tokens
        : Math.round((tokens * to) / whole) - Math.round((tokens * from) / whole);
    return {
      ...event,
      inputTokens: part(event.inputTokens),
      outputTokens: part(event.outputTokens),
    };
  });
}
