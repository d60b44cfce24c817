/** Methods of a benchmark process, by name. Inputs and outputs are plain data. */
export type Methods = Record<string, (input: never) => unknown>;

/** Method call from the parent process. */
export type MethodCall = { id: number; method: string; input: unknown };

/** Result of the method call with the same ID. */
export type MethodResult = { id: number; output: unknown } | { id: number; error: string };

/**
 * Serves method calls of the parent process until it disconnects.
 * @param methods Methods; the parent receives the text of a thrown error.
 */
export function serveMethods(methods: Methods): void {
  process.on('message', (question: MethodCall) => {
    void answer(methods, question).then((message) => process.send?.(message));
  });
  process.on('disconnect', () => process.exit());
  // Ctrl-C reaches all processes of a terminal. The parent alone decides, and tidies up first.
  process.on('SIGINT', () => undefined);
}

async function answer(methods: Methods, { id, method, input }: MethodCall): Promise<MethodResult> {
  try {
    // The parent's side is typed by the same methods, so the input is what this one takes.
    return { id, output: await methods[method]?.(input as never) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
