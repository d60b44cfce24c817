import { Type } from 'typebox';
import { TEXT_TYPE, parseFileName } from '../../files/files.ts';
import { cutToBytes } from '../../text.ts';
import { defineTool, ToolError } from './tool.ts';

/** Maximum part length: about 6,000 Cyrillic characters or 3,000 tokens. */
const MAX_PART_BYTES = 12_000;

/** Maximum byte offset of a part, which exceeds the size of every file. */
const MAX_OFFSET = 2 ** 30;

/** Tool that reads a text file of the session. */
export const readFile = defineTool({
  name: 'read_file',
  description: `Reads a text file that the person attached, up to ${MAX_PART_BYTES} bytes at a time. Where there is more, next says where to go on.`,
  input: Type.Object(
    {
      name: Type.String({ minLength: 1, maxLength: 200 }),
      from: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: MAX_OFFSET,
          description: 'the byte to begin with: next of the part before; 0 without it',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  // A third party may have written the attached file.
  hasThirdPartyText: true,
  isFileTool: true,
  title: ({ name }) => `Reading ${name}`,
  async run({ name: requestedName, from: offset = 0 }, { files, user, sessionId, outputBytes }) {
    const name = parseFileName(requestedName);
    const partRequest = { sessionId, name, from: offset, bytes: MAX_PART_BYTES };
    const {
      part,
      size_bytes: size,
      media_type: mediaType,
    } = await files.readPart(user, partRequest);
    if (mediaType !== TEXT_TYPE) {
      throw new ToolError(`${name} is ${mediaType}, not text: only text can be read`);
    }
    // The part may begin and end inside a multi-byte character.
    const firstByte = part.findIndex((byte) => byte >> 6 !== 0b10);
    const startByte = firstByte === -1 ? part.length : firstByte;
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    const partText = decoder.decode(part.subarray(startByte), { stream: true });
    // Halve the part until its JSON form fits. The next part starts at the end of this part.
    for (let length = part.length - startByte; ; length = Math.floor(length / 2)) {
      const text = cutToBytes(partText, length);
      const bytes = Buffer.byteLength(text);
      const nextOffset = offset + startByte + bytes;
      const data = { name, ...(nextOffset < size && { next: nextOffset, size }), text };
      if (length > 0 && Buffer.byteLength(JSON.stringify(data)) > outputBytes) continue;
      return { data, laterData: { name }, summary: `${bytes} of ${size} bytes` };
    }
  },
});
