import { type Static, Type } from 'typebox';
import { defineAnswer } from './schema.ts';

/** Answer schema for images of listings. It is part of the prompt version. */
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

/** Validated description of an image. The length of its texts is not limited. */
export type ImageDescription = Static<typeof imageDescription.schema>;
