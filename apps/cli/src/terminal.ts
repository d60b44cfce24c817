// Characters that change how a terminal shows text: control characters, marks that reorder text, and lone surrogates.
const UNSAFE_CHARACTER_PATTERN = /[\p{Cc}\p{Cs}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** Returns untrusted text as one line that is safe to print. */
export function sanitizeLine(text: string): string {
  return text.replace(/\s+/gu, ' ').replace(UNSAFE_CHARACTER_PATTERN, '').trim();
}

/** Returns untrusted text of several lines that is safe to print. */
export function sanitizeText(text: string): string {
  return text.replace(UNSAFE_CHARACTER_PATTERN, (character) =>
    /[\n\t]/.test(character) ? character : '',
  );
}

// JSON escapes the first 32 control characters and lone surrogates itself.
const UNSAFE_JSON_CHARACTER_PATTERN =
  /[\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/g;

/**
 * Formats a value as JSON and escapes characters that would affect a terminal.
 * @param indent Spaces of indentation. 0 formats one line.
 */
export function formatJson(value: unknown, indent = 2): string {
  return JSON.stringify(value, null, indent).replace(
    UNSAFE_JSON_CHARACTER_PATTERN,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Indents the first lines, and adds the number of the omitted lines. */
export function formatFirstLines(lines: readonly string[], limit: number, indent = ''): string[] {
  const omittedCount = lines.length - limit;
  const shownLines = [
    ...lines.slice(0, limit),
    ...(omittedCount > 0 ? [`… and ${omittedCount} more`] : []),
  ];
  return shownLines.map((line) => indent + line);
}
