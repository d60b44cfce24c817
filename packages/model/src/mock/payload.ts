/** Reading a payload that may be anything JSON can hold: what is no hint is simply absent. */
export type Payload = Record<string, unknown>;

/** The payload's own keys, or none when it is no object. */
export function asPayload(input: unknown): Payload {
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input);
  // A null prototype keeps inherited names such as "constructor" from being read as fields.
  return Object.assign(Object.create(null), isObject ? input : {});
}

/** The field's text, trimmed; null when it is missing, empty or no string. */
export function textHint(payload: Payload, key: string): string | null {
  const value = payload[key];
  if (typeof value !== 'string') return null;
  const text = value.slice(0, 1_000).replace(/\s+/gu, ' ').trim();
  return text === '' ? null : text;
}

/** The field's number within bounds, else null. */
export function numberHint(payload: Payload, key: string, min: number, max: number): number | null {
  const value = payload[key];
  return typeof value === 'number' && value >= min && value <= max ? value : null;
}

/** The field's whole number within bounds, else null. */
export function integerHint(
  payload: Payload,
  key: string,
  min: number,
  max: number,
): number | null {
  const value = numberHint(payload, key, min, max);
  return value !== null && Number.isInteger(value) ? value : null;
}

/** The field's value when it is one of the choices, else null. */
export function choiceHint<T extends string>(
  payload: Payload,
  key: string,
  choices: readonly T[],
): T | null {
  return choices.find((choice) => choice === payload[key]) ?? null;
}
