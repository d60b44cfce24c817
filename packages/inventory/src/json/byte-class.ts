export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const NEWLINE = 0x0a;
/** JSON has no raw characters below this in strings. */
export const FIRST_PRINTABLE = 0x20;

/**
 * What a byte outside of strings means to whoever looks for the end of a value. Letters count as
 * parts of words, although few words are JSON: `NaN` is then told about as a word.
 */
export const ByteClass = {
  illegal: 0,
  word: 1,
  space: 2,
  newline: 3,
  quote: 4,
  open: 5,
  close: 6,
  colon: 7,
  comma: 8,
} as const;

const CHARACTERS: [number, string][] = [
  [ByteClass.space, ' \t\r'],
  [ByteClass.newline, '\n'],
  [ByteClass.quote, '"'],
  [ByteClass.open, '[{'],
  [ByteClass.close, ']}'],
  [ByteClass.colon, ':'],
  [ByteClass.comma, ','],
  [ByteClass.word, '+-._$0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'],
];

/** The class of each of the 256 bytes. */
export const BYTE_CLASSES = new Uint8Array(256);
for (const [byteClass, characters] of CHARACTERS) {
  for (const character of characters) BYTE_CLASSES[character.charCodeAt(0)] = byteClass;
}
