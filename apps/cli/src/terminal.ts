// Characters that change how a terminal shows text: control characters, bidirectional controls, and lone surrogates.
const UNSAFE_CHARACTER_PATTERN = /[\p{Cc}\p{Cs}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** Returns untrusted text as one line that is safe to print. */
export function sanitizeLine(text: string): string {
  return text.replace(/\s+/gu, ' ').replace(UNSAFE_CHARACTER_PATTERN, '').trim();
}

/** Returns untrusted multi-line text that is safe to print. */
export function sanitizeText(text: string): string {
  return text.replace(UNSAFE_CHARACTER_PATTERN, (character) =>
    /[\n\t]/.test(character) ? character : '',
  );
}

/** Returns at most `limit` lines, indented, and a line with the number of the omitted lines, if any. */
export function formatFirstLines(lines: readonly string[], limit: number, indent = ''): string[] {
  const omittedCount = lines.length - limit;
  const shownLines = [
    ...lines.slice(0, limit),
    ...(omittedCount > 0 ? [`… and ${omittedCount} more`] : []),
  ];
  return shownLines.map((line) => indent + line);
}
