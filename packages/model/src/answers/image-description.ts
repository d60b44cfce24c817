import { type Static, Type } from 'typebox';

/** What a vision model answers about a picture of a listing. The prompt's version stands for it. */
export const imageDescription = {
  schemaName: 'image_description',
  schema: Type.Object({
    description: Type.String(),
    room_type: Type.Union([
      Type.Literal('kitchen'),
      Type.Literal('bathroom'),
      Type.Literal('bedroom'),
      Type.Literal('living_room'),
      Type.Literal('exterior'),
      Type.Literal('plan'),
      Type.Literal('other'),
    ]),
    quality: Type.Union([Type.Literal('good'), Type.Literal('poor')]),
  }),
} as const;

/** An answer of that schema: its texts are as the model wrote them, of any length. */
export type ImageDescription = Static<typeof imageDescription.schema>;
