import { Type } from 'typebox';
import { TEXT_TYPE, toFileName } from '../../files/files.ts';
import { defineTool, ToolError } from './tool.ts';

/** Maximum length of a part in bytes: some 6,000 Cyrillic letters, or 3,000 tokens. */
const PART_BYTES = 12_000;

/** A position beyond the end of every file. */
const MAX_POSITION = 2 ** 30;

/** Reads a text file of the session. */
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
  // The person may attach a file that somebody else wrote.
  isData: true,
  isForFiles: true,
  title: ({ name }) => `Reading ${name}`,
  async run({ name: wanted, from = 0 }, { files, user, sessionId, outputBytes }) {
    const name = toFileName(wanted);
    const file = { sessionId, name, from, bytes: PART_BYTES };
    const { part, size_bytes: size, media_type: mediaType } = await files.readPart(user, file);
    if (mediaType !== TEXT_TYPE) {
      throw new ToolError(`${name} is no text, but ${mediaType}: only text can be read`);
    }
    // The model may ask for a position within a character.
    const start = Math.max(
      0,
      part.findIndex((byte) => !isContinuation(byte)),
    );
    // A part that does not fit as JSON is halved: the next one begins where this one ends.
    for (let length = part.length - start; ; length = Math.floor(length / 2)) {
      const shown = wholeCharacters(part.subarray(start, start + length));
      const next = from + start + shown.length;
      const data = { name, ...(next < size && { next, size }), text: shown.toString() };
      if (length > 0 && Buffer.byteLength(JSON.stringify(data)) > outputBytes) continue;
      return { data, kept: { name }, summary: `${shown.length} of ${size} bytes` };
    }
  },
});

/** Returns whether a byte of UTF-8 continues a character. */
const isContinuation = (byte: number) => byte >> 6 === 0b10;

/** Cuts an incomplete character off the end of a text. */
function wholeCharacters(part: Buffer): Buffer {
  const lead = part.findLastIndex((byte) => !isContinuation(byte));
  const first = part[lead] ?? 0;
  const length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return lead + length > part.length ? part.subarray(0, lead) : part;
}
