/** Reads the parameters of an address: a text each, or an array of texts if it is repeated. */
export function parseParams(text: string): Record<string, string | string[]> {
  const params = new URLSearchParams(text);
  return Object.fromEntries(
    [...new Set(params.keys())].map((name) => {
      const values = params.getAll(name);
      return [name, values.length > 1 ? values : (values[0] ?? '')];
    }),
  );
}

/** Writes the parameters of an address, with a question mark. */
export function writeParams(values: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const item of [value ?? []].flat())
      params.append(name, `${item as string | number | boolean}`);
  }
  return params.size === 0 ? '' : `?${params.toString()}`;
}
