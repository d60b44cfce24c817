import assert from 'node:assert/strict';
import { MARK } from './text.ts';

/** Ids, tokens, states, codes and keys are runs of these characters, and long. */
const RUN = /[\w-]{32,}/g;

/** What must not be shown, and where it was looked for. */
export type Secrets = ReturnType<typeof createSecrets>;

/**
 * Keeps what must be shown to nobody: tokens, ids of sessions, states, verifiers, keys.
 * @param fixed Secrets of whatever characters.
 * @param issued Grows with the tokens that the provider gives.
 */
export function createSecrets({
  fixed,
  issued,
}: {
  fixed: readonly string[];
  issued: readonly string[];
}) {
  const runs = new Set<string>();
  let known = 0;

  function find(text: string): string | undefined {
    for (; known < issued.length; known += 1) runs.add(issued[known] ?? '');
    const run = text.match(RUN)?.find((one) => runs.has(one));
    return run ?? fixed.find((one) => text.includes(one));
  }

  return {
    /** Adds an id, a state or the like. */
    add: (secret: string) => void runs.add(secret),
    /** Fails where an answer shows a secret. */
    checkAnswer(text: string): void {
      const shown = find(text);
      assert.equal(shown, undefined, `an answer shows ${shown}: ${text}`);
    },
    /** Fails where a line of the log shows a secret, or what was sent as one; or tells of a failure. */
    checkLog(line: string): void {
      const shown = line.includes(MARK) ? MARK : find(line);
      assert.equal(shown, undefined, `the log shows ${shown}: ${line}`);
      assert.doesNotMatch(line, /"level":"(error|fatal)"/);
    },
  };
}
