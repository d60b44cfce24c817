import { Type } from 'typebox';
import { cutText } from '../cut-text.ts';
import { type Files, TEXT_TYPE, toFileName } from '../files/index.ts';
import { defineTool, ToolError } from './tool.ts';

/** How much of a file one call gives, in characters. */
const PART_LENGTH = 6000;

/** Reads a text file of the session's own. Every profile has it in a session that has files. */
export const readFile = (files: Pick<Files, 'readFile'>) =>
  defineTool({
    name: 'read_file',
    description: `Reads a text file that the person attached, ${PART_LENGTH} characters at a time.`,
    input: Type.Object(
      {
        name: Type.String({ minLength: 1, maxLength: 200 }),
        from: Type.Optional(
          Type.Integer({ minimum: 0, description: 'the character to begin with, 0 without it' }),
        ),
      },
      { additionalProperties: false },
    ),
    // Who attached it may not have written it.
    isData: true,
    changesMemory: false,
    title: ({ name }) => `Reading ${name}`,
    async run({ name: asked, from = 0 }, { user, sessionId }) {
      const name = toFileName(asked);
      const { content, mediaType } = await files.readFile(user, { sessionId, name });
      if (mediaType !== TEXT_TYPE) {
        throw new ToolError(`${name} is no text, but ${mediaType}: only text can be read`);
      }
      const text = content.toString();
      // The model may ask for any place, also for one within a character.
      const begin = cutText(text, from).length;
      const part = cutText(text.slice(begin), PART_LENGTH);
      const next = begin + part.length;
      return {
        data: { name, text: part, ...(next < text.length && { next, length: text.length }) },
        kept: { name },
        summary: `${part.length} of ${text.length} characters`,
      };
    },
  });
