import { type Static, Type } from 'typebox';
import { defineAnswer } from './answer.ts';

/** What a vision model answers about a picture of a listing. The prompt's version stands for it. */
export const imageDescription = defineAnswer({
  schemaName: 'image_description',
  maxOutputTokens: 500,
  schema: Type.Object({
    description: Type.String(),
    room_type: Type.Enum([
      'kitchen',
      'bathroom',
      'bedroom',
      'living_room',
      'exterior',
      'plan',
      'other',
    ]),
    quality: Type.Enum(['good', 'poor']),
  }),
});

/** An answer of that schema: its texts are as the model wrote them, of any length. */
export type ImageDescription = Static<typeof imageDescription.schema>;
