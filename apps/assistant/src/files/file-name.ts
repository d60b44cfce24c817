import { problem } from '../errors.ts';

/** What file systems take; most take 255. */
const MAX_NAME_BYTES = 200;

/** Windows means devices by these, whatever comes after a dot. */
const RESERVED = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\.|$)/i;

/** Control characters, and those that turn the direction of a text: "exe.gpj" may look like "jpg.exe". */
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

const RULES: readonly [broken: (name: string) => boolean, rule: string][] = [
  [(name) => /[/\\]/.test(name), 'must not contain / or \\'],
  [(name) => UNPRINTABLE.test(name), 'must not contain control characters'],
  [
    (name) => name === '' || /^[\s.]|[\s.]$/u.test(name),
    'must not be empty, and begin or end neither with a dot nor with a space',
  ],
  [(name) => RESERVED.test(name), 'must not be a name that Windows reserves'],
  [
    (name) => Buffer.byteLength(name) > MAX_NAME_BYTES,
    `must be at most ${MAX_NAME_BYTES} bytes of UTF-8`,
  ],
];

/**
 * The name of a file as it is stored: in the normal form C, so that what looks the same is the same.
 * It is one segment of a path that is safe in every file system. Contract 3, the ownership table.
 * @throws ProblemError `validation_failed` with the rules that it breaks.
 */
export function toFileName(text: string): string {
  const name = text.normalize('NFC');
  const errors = RULES.filter(([isBroken]) => isBroken(name)).map(([, message]) => ({
    path: 'params/name',
    message,
  }));
  if (errors.length > 0) throw problem('validation_failed', { errors });
  return name;
}
