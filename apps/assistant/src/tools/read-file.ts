import { Type } from 'typebox';
import { type Files, TEXT_TYPE, toFileName } from '../files/files.ts';
import { defineTool, ToolError } from './tool.ts';

/** How much of a file one call gives, in bytes: some 6,000 Cyrillic letters, which is 3,000 tokens. */
const PART_BYTES = 12_000;

/** More than a file has. */
const MAX_PLACE = 2 ** 30;

/** Reads a text file of the session's own. Every profile has it in a session that has files. */
export const readFile = (files: Pick<Files, 'readPart'>) =>
  defineTool({
    name: 'read_file',
    description: `Reads a text file that the person attached, up to ${PART_BYTES} bytes at a time. Where there is more, next says where to go on.`,
    input: Type.Object(
      {
        name: Type.String({ minLength: 1, maxLength: 200 }),
        from: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: MAX_PLACE,
            description: 'the byte to begin with: next of the part before; 0 without it',
          }),
        ),
      },
      { additionalProperties: false },
    ),
    // Who attached it may not have written it.
    isData: true,
    changesMemory: false,
    title: ({ name }) => `Reading ${name}`,
    async run({ name: asked, from = 0 }, { user, sessionId, outputBytes }) {
      const name = toFileName(asked);
      const file = { sessionId, name, from, bytes: PART_BYTES };
      const {
        part,
        size_bytes: sizeBytes,
        media_type: mediaType,
      } = await files.readPart(user, file);
      if (mediaType !== TEXT_TYPE) {
        throw new ToolError(`${name} is no text, but ${mediaType}: only text can be read`);
      }
      const { bytes, data } = fittingPart({ name, from, part, sizeBytes }, outputBytes);
      return { data, kept: { name }, summary: `${bytes} of ${sizeBytes} bytes` };
    },
  });

type Part = { name: string; from: number; part: Buffer; sizeBytes: number };

/**
 * As much of a part as can be told whole: what is cut off later would be missed, since the next part begins after it.
 * @param outputBytes How long it may be, as JSON, in which characters such as line breaks take more.
 */
function fittingPart({ name, from, part, sizeBytes }: Part, outputBytes: number) {
  // The model may ask for any place, also for one within a character.
  const begin = Math.max(
    0,
    part.findIndex((byte) => !isContinuation(byte)),
  );
  for (let length = part.length - begin; ; length = Math.floor(length / 2)) {
    const shown = wholeCharacters(part.subarray(begin, begin + length));
    const next = from + begin + shown.length;
    const more = next < sizeBytes && { next, size: sizeBytes };
    const data = { name, ...more, text: shown.toString() };
    if (length === 0 || Buffer.byteLength(JSON.stringify(data)) <= outputBytes) {
      return { bytes: shown.length, data };
    }
  }
}

/** Whether a byte of UTF-8 is one of a character that began before it. */
const isContinuation = (byte: number) => byte >> 6 === 0b10;

/** The beginning of a text that ends with a whole character. */
function wholeCharacters(part: Buffer): Buffer {
  const lead = part.findLastIndex((byte) => !isContinuation(byte));
  const first = part[lead] ?? 0;
  const length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return lead + length > part.length ? part.subarray(0, lead) : part;
}
