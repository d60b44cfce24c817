/** Methods of a benchmark process, by name. Inputs and outputs are plain data. */
export type Methods = Record<string, (input: never) => unknown>;

/** A question from the process that started this one. */
export type Question = { id: number; method: string; input: unknown };

/** The answer to the question of the same id. */
export type Answer = { id: number; output: unknown } | { id: number; error: string };

/**
 * Answers the process that started this one, until that ends or lets go of it.
 * @param methods Each may throw; the error's text is what the other side gets.
 */
export function answerParent(methods: Methods): void {
  process.on('message', (question: Question) => {
    void answer(methods, question).then((message) => process.send?.(message));
  });
  process.on('disconnect', () => process.exit());
  // Ctrl-C reaches all processes of a terminal. The parent alone decides, and tidies up first.
  process.on('SIGINT', () => undefined);
}

async function answer(methods: Methods, { id, method, input }: Question): Promise<Answer> {
  try {
    // The parent's side is typed by the same methods, so the input is what this one takes.
    return { id, output: await methods[method]?.(input as never) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
