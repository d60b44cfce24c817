/** Tokens as the server counted them; null when it did not. */
export interface Usage {
  inputTokens: number | null;
  outputTokens: number | null;
}

/** Tokens of one answer. Servers that do not count leave them out, or the SDK gives NaN. */
export interface AnswerUsage {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
}

/** Adds up the tokens of the several answers that one call may take. */
export function createUsage(): { add(answer: AnswerUsage): void; total(): Usage } {
  const total: Usage = { inputTokens: null, outputTokens: null };
  return {
    add(answer) {
      total.inputTokens = sum(total.inputTokens, answer.inputTokens);
      total.outputTokens = sum(total.outputTokens, answer.outputTokens);
    },
    total: () => ({ ...total }),
  };
}

function sum(known: number | null, more: number | undefined): number | null {
  return more === undefined || Number.isNaN(more) ? known : (known ?? 0) + more;
}
