/** Methods of a benchmark process by name; inputs and outputs are serializable. */
export type Methods = Record<string, (input: never) => unknown>;

export type MethodCall = { id: number; method: string; input: unknown };

/** Result of the method call with the same ID. */
export type MethodResult = { id: number; output: unknown } | { id: number; error: string };

/**
 * Serves method calls of the parent process until it disconnects.
 * @param methods Methods by name; the parent receives the stack of a thrown error.
 */
export function serveMethods(methods: Methods): void {
  process.on('message', (call: MethodCall) => {
    void answer(methods, call).then((message) => process.send?.(message));
  });
  process.on('disconnect', () => process.exit());
  // Ignores Ctrl-C, which signals all processes of a terminal, because the parent must clean up first.
  process.on('SIGINT', () => undefined);
}

async function answer(methods: Methods, { id, method, input }: MethodCall): Promise<MethodResult> {
  try {
    // The parent derives its call types from the same methods, so the input has the right type.
    return { id, output: await methods[method]?.(input as never) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
