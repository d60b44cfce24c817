import { type Static, Type } from 'typebox';

/** As much of a problem as is used. RFC 9457. */
export const problem = Type.Object({
  title: Type.String(),
  status: Type.Integer(),
  code: Type.String(),
  detail: Type.Optional(Type.String()),
});

/** What went wrong, as the assistant says it. RFC 9457. */
export type Problem = Static<typeof problem>;
