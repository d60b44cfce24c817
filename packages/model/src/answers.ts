import { type Static, Type } from 'typebox';
import { defineAnswer } from './schema.ts';

/** The answer of a vision model about an image of a listing. The version of the prompt stands for it. */
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

/** A valid answer: its texts are as the model wrote them, of any length. */
export type ImageDescription = Static<typeof imageDescription.schema>;
