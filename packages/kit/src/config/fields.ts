import { type TArray, type TString, Type } from 'typebox';

/** A whole number within bounds. */
export function integer(options: { default: number; min?: number; max?: number }) {
  const { min: minimum = 0, max: maximum = Number.MAX_SAFE_INTEGER } = options;
  return Type.Integer({ default: options.default, minimum, maximum });
}

/** `true` or `false`. */
export function flag(fallback: boolean) {
  return Type.Boolean({ default: fallback });
}

/** Any text. */
export function text(fallback: string): TString {
  return Type.String({ default: fallback });
}

/** Text that is never shown: not in errors, not at the start. */
export function secret(): TString {
  return Type.String({ default: '', writeOnly: true });
}

/** The address of a server that is asked over HTTP; left out where there is none. */
export function httpAddress() {
  return Type.Optional(
    Type.String({ pattern: '^https?://', description: 'must be an http or https address' }),
  );
}

/** Comma-separated values. */
export function list(): TArray<TString> {
  return Type.Array(Type.String({ minLength: 1 }), { default: [] });
}
