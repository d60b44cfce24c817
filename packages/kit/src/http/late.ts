const waiting = new Set<() => unknown>();

/**
 * What is made when it is asked for first, and once. Of the schemas of some hundred routes, with those of all their
 * answers, most are asked for late or never, and to compile them was most of a server's start.
 */
export function late<Made>(make: () => Made): () => Made {
  let made: { value: Made } | undefined;
  const get = () => {
    if (made === undefined) {
      made = { value: make() };
      waiting.delete(get);
    }
    return made.value;
  };
  waiting.add(get);
  return get;
}

/**
 * Compiles all that nobody has asked for yet, for a test: it finds what cannot be compiled before a request does.
 * @throws What the first of them throws.
 */
export function compileAll(): void {
  for (const get of waiting) get();
}
