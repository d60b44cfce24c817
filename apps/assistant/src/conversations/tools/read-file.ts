import { Type } from 'typebox';
import { TEXT_TYPE, parseFileName } from '../../files/files.ts';
import { defineTool, ToolError } from './tool.ts';

/** Maximum length of a part in bytes, about 6,000 Cyrillic letters or 3,000 tokens. */
const PART_BYTES = 12_000;

/** Maximum position in bytes. No file is that large. */
const MAX_POSITION = 2 ** 30;

/** Tool that reads a text file of the session. */
export const readFile = defineTool({
  name: 'read_file',
  description: `Reads a text file that the person attached, up to ${PART_BYTES} bytes at a time. Where there is more, next says where to go on.`,
  input: Type.Object(
    {
      name: Type.String({ minLength: 1, maxLength: 200 }),
      from: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: MAX_POSITION,
          description: 'the byte to begin with: next of the part before; 0 without it',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  // A third party may have written the attached file.
  isData: true,
  isForFiles: true,
  title: ({ name }) => `Reading ${name}`,
  async run({ name: wanted, from = 0 }, { files, user, sessionId, outputBytes }) {
    const name = parseFileName(wanted);
    const file = { sessionId, name, from, bytes: PART_BYTES };
    const { part, size_bytes: size, media_type: mediaType } = await files.readPart(user, file);
    if (mediaType !== TEXT_TYPE) {
      throw new ToolError(`${name} is no text, but ${mediaType}: only text can be read`);
    }
    // The position may be inside a multi-byte character.
    const start = Math.max(
      0,
      part.findIndex((byte) => !isContinuation(byte)),
    );
    // If the JSON form is too long, halve the part. The next part starts at its end.
    for (let length = part.length - start; ; length = Math.floor(length / 2)) {
      const shown = wholeCharacters(part.subarray(start, start + length));
      const next = from + start + shown.length;
      const data = { name, ...(next < size && { next, size }), text: shown.toString() };
      if (length > 0 && Buffer.byteLength(JSON.stringify(data)) > outputBytes) continue;
      return { data, kept: { name }, summary: `${shown.length} of ${size} bytes` };
    }
  },
});

/** Returns whether a byte is a continuation byte of UTF-8. */
const isContinuation = (byte: number) => byte >> 6 === 0b10;

/** Removes an incomplete UTF-8 character from the end of a buffer. */
function wholeCharacters(part: Buffer): Buffer {
  const lead = part.findLastIndex((byte) => !isContinuation(byte));
  const first = part[lead] ?? 0;
  const length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return lead + length > part.length ? part.subarray(0, lead) : part;
}
